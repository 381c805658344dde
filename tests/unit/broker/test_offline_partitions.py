"""What a node answers about partitions whose folder has failed, while it ran or before.

Asked of Apache Kafka 4.1 with two folders, of which one got EIO from every write (by a library before the C library's).
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.describe_producers.v0.request import TopicRequest as ProducersOf
from kio.schema.describe_topic_partitions.v0.request import TopicRequest
from kio.schema.elect_leaders.v2.request import TopicPartitions
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.txn_offset_commit.v5 import request as offsets
from kio.schema.write_txn_markers.v1.request import WritableTxnMarker, WritableTxnMarkerTopic

from coordinator.hashing import partition_for
from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.test_transactions import V1, V2, Producer
from tests.unit.broker.wire import batch, fetch, produce

CONFIG = {"log.dirs": "/one,/two", "offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
GROUP, TRANSACTION = 0, 1
PREFERRED, UNCLEAN = 0, 1
LED, OFFLINE = 0, 1
"""Partitions of `t`."""


def keys(rig: Rig, topic: str) -> tuple[str, str]:
    """A group or transactional id whose partition is online, and one whose partition is not."""
    offline = {index for index in range(2) if rig.node.partitions.online(topic, index) is None}
    assert len(offline) == 1
    names = [f"key{number}" for number in range(20)]
    return (
        next(name for name in names if partition_for(name, 2) not in offline),
        next(name for name in names if partition_for(name, 2) in offline),
    )


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        client = rig.connect()
        for kind in (GROUP, TRANSACTION):
            client.send("find_coordinator", 4, key_type=kind, coordinator_keys=("key",))
            await rig.clock.run(1000)
        assert len(client.replies()) == 2

        def gone(operation: str, path: str) -> None:
            if path.startswith("/two"):
                raise OSError(errno.EIO, "gone", path)

        rig.fs.hook = gone
        assert await codes(client, "produce", 9, **produce("t", {LED: batch(b"a"), OFFLINE: batch(b"a")})) == [
            "none",
            "kafka_storage_error",
        ]
        yield rig


async def codes(client: Client, api: str, version: int, **fields: Any) -> list[str]:
    told = await client.ask(api, version, **fields)
    return [one.error_code.name for one in told.responses[0].partition_responses]


async def test_records(rig: Rig) -> None:
    client = rig.connect()
    for index, code in ((LED, "none"), (OFFLINE, "kafka_storage_error")):
        assert await codes(client, "produce", 9, **produce("t", {index: batch(b"a")})) == [code]
        told = await client.ask("fetch", 12, **fetch([("t", index, 0)], max_wait_ms=0))
        assert [one.error_code.name for one in told.responses[0].partitions] == [code]


@pytest.mark.parametrize("kind, topic", [(GROUP, "__consumer_offsets"), (TRANSACTION, "__transaction_state")])
async def test_there_is_no_coordinator(rig: Rig, kind: int, topic: str) -> None:
    client = rig.connect()
    online, offline = keys(rig, topic)
    told = await client.ask("find_coordinator", 4, key_type=kind, coordinator_keys=(online, offline))
    assert [(one.error_code.name, one.error_message, one.node_id) for one in told.coordinators] == [
        ("none", "", 1),
        ("coordinator_not_available", "", -1),
    ]
    one = await client.ask("find_coordinator", 3, key_type=kind, key=offline)
    assert (one.error_code.name, one.error_message) == (
        "coordinator_not_available",
        "The coordinator is not available.",
    )


async def test_producers_are_not_told(rig: Rig) -> None:
    asked = ProducersOf(name="t", partition_indexes=(LED, OFFLINE))
    told = await rig.connect().ask("describe_producers", 0, topics=(asked,))
    assert [(one.error_code.name, one.error_message) for one in told.topics[0].partitions] == [
        ("none", None),
        ("kafka_storage_error", None),
    ]


async def test_partitions_may_be_led_again(rig: Rig) -> None:
    asked = (TopicRequest(name="t"),)
    told = await rig.connect().ask(
        "describe_topic_partitions", 0, topics=asked, response_partition_limit=100, cursor=None
    )
    assert [
        (one.error_code.name, one.leader_id, one.isr_nodes, one.offline_replicas, one.eligible_leader_replicas)
        for one in told.topics[0].partitions
    ] == [("none", 1, (1,), (), ()), ("none", -1, (), (1,), (1,))]
    assert [one.last_known_elr for one in told.topics[0].partitions] == [(), (1,)]


@pytest.mark.parametrize(
    "kind, code, text",
    [
        (PREFERRED, "preferred_leader_not_available", "The preferred leader was not available."),
        (UNCLEAN, "eligible_leaders_not_available", "Eligible topic partition leaders are not available."),
    ],
)
async def test_no_leader_is_elected(rig: Rig, kind: int, code: str, text: str) -> None:
    client = rig.connect()
    asked = (TopicPartitions(topic="t", partitions=(LED, OFFLINE)),)
    second = timedelta(seconds=1)
    told = await client.ask("elect_leaders", 2, election_type=kind, topic_partitions=asked, timeout=second)
    needless = ("election_not_needed", "Leader election not needed for topic partition.")
    results = told.replica_election_results[0].partition_result
    assert [(one.error_code.name, one.error_message) for one in results] == [needless, (code, text)]
    told = await client.ask("elect_leaders", 2, election_type=kind, topic_partitions=None, timeout=second)
    (of_t,) = [one for one in told.replica_election_results if one.topic == "t"]
    assert [(one.partition_id, one.error_code.name) for one in of_t.partition_result] == [(OFFLINE, code)]


async def test_markers_find_no_partition(rig: Rig) -> None:
    marker = WritableTxnMarker(
        producer_id=9,
        producer_epoch=0,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name="t", partition_indexes=(OFFLINE,)),),
        coordinator_epoch=0,
    )
    told = await rig.connect().ask("write_txn_markers", 1, markers=(marker,))
    (one,) = told.markers[0].topics[0].partitions
    assert one.error_code.name == "unknown_topic_or_partition"


@pytest.mark.parametrize("version", [V1, V2])
async def test_transactional_records_are_refused_before_their_transaction_is_looked_at(rig: Rig, version: int) -> None:
    client = rig.connect()
    producer = Producer(client, keys(rig, "__transaction_state")[0])
    assert await producer.init() == "none"
    records = batch(b"a", producer_id=producer.producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    asked = {**produce("t", {OFFLINE: records}), "transactional_id": producer.name}
    told = await client.ask("produce", version, **asked)
    (one,) = told.responses[0].partition_responses
    assert (one.error_code.name, one.error_message) == ("kafka_storage_error", None)


@pytest.mark.parametrize("version", [3, 5])
async def test_transactional_offsets_are_refused_before_their_transaction_is_looked_at(rig: Rig, version: int) -> None:
    client = rig.connect()
    producer = Producer(client, keys(rig, "__transaction_state")[0])
    assert await producer.init() == "none"
    wanted = offsets.TxnOffsetCommitRequestPartition(partition_index=LED, committed_offset=1, committed_metadata="")
    told = await client.ask(
        "txn_offset_commit",
        version,
        transactional_id=producer.name,
        group_id=keys(rig, "__consumer_offsets")[1],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=(offsets.TxnOffsetCommitRequestTopic(name="t", partitions=(wanted,)),),
    )
    await settle()
    assert [one.error_code.name for one in told.topics[0].partitions] == ["not_coordinator"]


@pytest.fixture
async def restarted(rig: Rig) -> AsyncIterator[Rig]:
    """The node started again without the folder."""
    await rig.stop()
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2, config=CONFIG) as again:
        yield again


async def test_what_is_offline_at_the_start_has_no_leader(restarted: Rig) -> None:
    client = restarted.connect()
    leaderless = "not_leader_or_follower"
    assert await codes(client, "produce", 9, **produce("t", {OFFLINE: batch(b"a")})) == [leaderless]
    marker = WritableTxnMarker(
        producer_id=9,
        producer_epoch=0,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name="t", partition_indexes=(OFFLINE,)),),
        coordinator_epoch=0,
    )
    told = await client.ask("write_txn_markers", 1, markers=(marker,))
    assert told.markers[0].topics[0].partitions[0].error_code.name == leaderless
    for offset in (-1, 1):
        wanted = DeleteRecordsPartition(partition_index=OFFLINE, offset=offset)
        topics = (DeleteRecordsTopic(name="t", partitions=(wanted,)),)
        told = await client.ask("delete_records", 2, topics=topics, timeout=timedelta(seconds=1))
        assert told.topics[0].partitions[0].error_code.name == leaderless
    told = await client.ask(
        "describe_topic_partitions", 0, topics=(TopicRequest(name="t"),), response_partition_limit=100, cursor=None
    )
    one = told.topics[0].partitions[OFFLINE]
    assert (one.leader_id, one.eligible_leader_replicas, one.last_known_elr) == (-1, (), (1,))


async def test_a_wrong_epoch_comes_before_the_missing_leader(restarted: Rig) -> None:
    partition = restarted.node.partitions.get("t", OFFLINE)
    assert partition is not None
    epoch = partition.leader_epoch
    for asked, code in (
        (-1, "not_leader_or_follower"),
        (epoch - 1, "fenced_leader_epoch"),
        (epoch, "not_leader_or_follower"),
        (epoch + 1, "unknown_leader_epoch"),
    ):
        wanted = ListOffsetsPartition(partition_index=OFFLINE, current_leader_epoch=asked, timestamp=-1)
        topics = (ListOffsetsTopic(name="t", partitions=(wanted,)),)
        told = await restarted.connect().ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=topics)
        assert told.topics[0].partitions[0].error_code.name == code


@pytest.mark.parametrize("path, code", [("/one", "replica_not_available"), ("/two", "kafka_storage_error")])
async def test_what_is_offline_at_the_start_moves_nowhere(restarted: Rig, path: str, code: str) -> None:
    wanted = AlterReplicaLogDirTopic(name="t", partitions=(OFFLINE,))
    told = await restarted.connect().ask(
        "alter_replica_log_dirs", 2, dirs=(AlterReplicaLogDir(path=path, topics=(wanted,)),)
    )
    assert told.results[0].partitions[0].error_code.name == code
