"""Single requests about transactions through a whole node, where no transaction is needed to ask them."""

from __future__ import annotations

from kio.schema.txn_offset_commit.v4.request import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from kio.schema.write_txn_markers.v1.request import WritableTxnMarker, WritableTxnMarkerTopic

from protocol.records.batch import MAGIC_AT
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import batch, produce


async def test_offsets_before_the_first_group_find_no_coordinator_yet_as_in_kafka() -> None:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_leader_epoch=-1, committed_metadata=""
    )
    async with Rig() as rig:
        await rig.create("t")
        told = await rig.connect().ask(
            "txn_offset_commit",
            4,
            transactional_id="tx",
            group_id="readers",
            producer_id=7,
            producer_epoch=0,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
        )
        assert told.topics[0].partitions[0].error_code.name == "coordinator_not_available"


async def test_a_partition_that_is_named_twice_gets_one_marker() -> None:
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=(0, 0))
    marker = WritableTxnMarker(
        producer_id=7, producer_epoch=0, transaction_result=True, topics=(topic, topic), coordinator_epoch=0
    )
    async with Rig() as rig:
        await rig.create("t")
        told = await rig.connect().ask("write_txn_markers", 1, markers=(marker,))
        (answered,) = told.markers[0].topics[0].partitions
        assert answered.error_code.name == "none"
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        assert partition.log_end_offset == 1


async def test_a_wrong_magic_behind_a_transactional_batch_is_that_partitions_error_before_zstd_too() -> None:
    """Kafka looks for one transactional batch, not at what follows; from version 7 on nothing else is looked at."""
    async with Rig() as rig:
        await rig.create("t", 2)
        client = rig.connect()
        await client.ask("find_coordinator", 4, key_type=1, coordinator_keys=("tx",))
        unknown = batch(b"a", producer_id=12345, producer_epoch=0, base_sequence=0, transactional=True)
        wrong = bytearray(batch(b"b"))
        wrong[MAGIC_AT] = 3
        fields = produce("t", {0: unknown, 1: bytes(wrong)})
        for version in (6, 7):
            told = await client.ask("produce", version, transactional_id="tx", **fields)
            codes = [one.error_code.name for one in told.responses[0].partition_responses]
            assert codes == ["invalid_producer_id_mapping", "corrupt_message"]
