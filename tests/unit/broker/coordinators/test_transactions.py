"""Transactions through a whole node: what is answered while markers are on their way, and over a crash."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic as AddPartitionsToTxnTopicOfBrokers
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTransaction

from broker.network.frames import LARGEST_SCRATCH_BYTES, SCRATCH_BYTES
from controller import features
from controller.features import SAFE_DOWNGRADE, FeatureUpdate
from coordinator.runtime.coordinator_context import CoordinatorState
from coordinator.runtime.runtime import partition_for
from metadata.topic_names import TRANSACTION_STATE_TOPIC_NAME
from tests.doubles.clock import settle
from tests.doubles.files import Unsynced
from tests.doubles.workers import LoopWorkers, QueuedWorkers
from tests.unit.broker.rig import Rig
from tests.unit.broker.scraping import samples
from tests.unit.broker.transactions import CONFIG, V1, V2, Producer, begun, opened, read
from tests.unit.broker.wire import answer, batch, fetch, frame, produce


async def test_what_is_open_is_not_read_as_committed_and_is_counted() -> None:
    async with Rig(config=CONFIG) as rig:
        producer = await opened(rig)
        assert await producer.produce(b"first", 0) == ["none"]
        assert await read(rig, isolation=1) == b""
        assert b"first" in await read(rig, isolation=0)
        await rig.clock.run(30_000)
        assert await producer.produce(b"second", 1) == ["none"]
        found = samples(rig.node.local.metrics)
        assert found['odradek_transactional_ids{state="Ongoing"}'] == 1
        assert found['odradek_oldest_open_transaction_seconds{partition="0",topic="t"}'] == 30
        assert found["kafka_server_replicamanager_partitionswithlatetransactionscount"] == 0
        assert found["odradek_transactions_marker_retries_total"] == 0
        for longer_than_ms, listed in ((29_999, 1), (30_000, 0)):
            told = await producer.client.ask(
                "list_transactions",
                1,
                state_filters=(),
                producer_id_filters=(),
                duration_filter=longer_than_ms,
            )
            assert len(told.transaction_states) == listed
        assert await producer.end(commit=True) == "none"
        assert b"first" in await read(rig, isolation=1)
        found = samples(rig.node.local.metrics)
        assert found["odradek_transactions_committed_total"] == 1
        assert found['odradek_transactional_ids{state="CompleteCommit"}'] == 1
        assert 'odradek_oldest_open_transaction_seconds{partition="0",topic="t"}' not in found


async def marker_held() -> tuple[Rig, QueuedWorkers, Producer]:
    """A transaction is committed, and its marker not on the device yet."""
    workers = QueuedWorkers()
    rig = Rig(workers=workers, config=CONFIG)
    await rig.start()
    producer = await opened(rig, flush_messages="1")
    producer.send(b"first", 0)
    await settle()
    workers.run_all()
    await settle()
    assert producer.told() == ["none"]
    assert await producer.end(commit=True) == "none"
    return rig, workers, producer


async def test_the_next_transaction_waits_a_while_for_the_markers_of_the_last() -> None:
    """Requests behind it wait too: the order stays."""
    rig, workers, producer = await marker_held()
    producer.send(b"second", 0)
    producer.send(b"third", 1)
    await rig.clock.run(50)
    assert producer.told() == []
    workers.run_all()
    await rig.clock.run(30)
    workers.run_all()
    await settle()
    workers.run_all()
    await settle()
    assert producer.told() == ["none", "none"]
    committed = await read(rig, isolation=0)
    assert committed.index(b"second") < committed.index(b"third")
    await rig.stop()


async def test_records_that_wait_are_not_overwritten_by_the_next_request() -> None:
    """Here the receive buffer ends with the request that waits, to the byte."""
    rig, workers, producer = await marker_held()
    transport = producer.client.transport
    transport.feed(frame("api_versions", 0, 1, client_id="x" * SCRATCH_BYTES))  # the larger buffer from here on
    await settle()
    producer.client.replies()
    size = LARGEST_SCRATCH_BYTES - 1_000
    size += LARGEST_SCRATCH_BYTES - len(frame("produce", V2, 1, **producer.fields(bytes(size), 0)))
    producer.send(bytes(size), 0)
    producer.send(b"third", 1)
    await rig.clock.run(50)
    for _ in range(4):
        workers.run_all()
        await rig.clock.run(20)
    assert producer.told() == ["none", "none"]
    await rig.stop()


async def test_a_wait_that_takes_too_long_is_told_and_nothing_is_written() -> None:
    rig, _, producer = await marker_held()
    producer.send(b"second", 0)
    producer.send(b"third", 1)
    await rig.clock.run(500)
    assert producer.told() == ["concurrent_transactions", "concurrent_transactions"]
    assert b"second" not in await read(rig, isolation=0)
    await rig.stop()


async def test_an_old_client_is_told_to_come_again() -> None:
    rig, _, producer = await marker_held()
    producer.send(b"second", 0, V1)
    await rig.clock.run(500)
    assert producer.told(V1) == ["not_enough_replicas"]
    await rig.stop()


async def test_a_commit_that_was_answered_is_one_after_a_crash() -> None:
    """Nobody knows whether the marker was written: it is once more, at offset 2."""
    rig, workers, producer = await marker_held()
    rig.fs.crash(Unsynced.KEPT)
    workers.drop_all()
    after = Rig(fs=rig.fs, clock=rig.clock, workers=LoopWorkers(), seed=2, config=CONFIG)
    await after.start()
    again = Producer(after.connect())
    again.producer_id, again.epoch = producer.producer_id, producer.epoch
    await after.clock.run(1_000)
    assert b"first" in await read(after, isolation=1)
    assert await again.produce(b"second", 0) == ["none"]
    assert await again.end(commit=False) == "none"
    told = await after.connect().ask("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=0, isolation_level=1))
    (aborted,) = told.responses[0].partitions[0].aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (again.producer_id, 3)
    await after.stop()


async def test_appends_of_no_transaction_ask_nobody() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        told: Any = await rig.connect().ask("produce", V2, **produce("t", {0: batch(b"plain")}))
        assert told.responses[0].partition_responses[0].error_code.name == "none"
        assert rig.node.cluster.cache.topic("__transaction_state") is None


async def test_without_room_for_transactions_v2_in_the_log_their_requests_are_not_supported() -> None:
    """As a Kafka 4.1 with transaction.version 0: AddPartitionsToTxn fails as a whole."""
    async with Rig(config=CONFIG) as rig:
        producer = await opened(rig)
        lower = FeatureUpdate("transaction.version", 0, SAFE_DOWNGRADE)
        controller = rig.node.controller
        schema = controller.around.schema
        await controller.submit(
            lambda image: features.decide(image, [lower], schema, kraft_version=0, validate_only=False)
        )
        assert await producer.produce(b"first", 0) == ["unsupported_version"]
        assert await producer.end(commit=False) == "unsupported_version"
        one = AddPartitionsToTxnTransaction(
            transactional_id="tx",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=False,
            topics=(AddPartitionsToTxnTopicOfBrokers(name="t", partitions=(0,)),),
        )
        told = await producer.client.ask("add_partitions_to_txn", 5, transactions=(one,))
        assert (told.error_code.name, told.results_by_transaction) == ("unsupported_version", ())
        assert await producer.init() == "none"


async def flushed_by_message(rig: Rig, workers: QueuedWorkers, topic: str) -> None:
    """From now on nothing in partition 0 is there for good before the workers run."""
    partition = rig.node.replicas.get(topic, 0)
    assert partition is not None
    partition.configure(replace(partition.log.config, flush_messages=1))
    workers.run_all()
    await settle()


async def test_a_delayed_write_does_not_get_behind_the_marker_beside_one_that_is_verified() -> None:
    """Transactions V1, whose epoch stays: partition 0 is in the transaction that ends meanwhile, 1 is asked about."""
    workers = QueuedWorkers()
    rig = Rig(workers=workers, config=CONFIG)
    await rig.start()
    await rig.create("t", 2)
    producer = await begun(rig)
    assert await producer.add_partition() == "none"
    assert await producer.produce(b"first", 0, V1) == ["none"]
    await flushed_by_message(rig, workers, TRANSACTION_STATE_TOPIC_NAME)
    ending = rig.connect()
    ending.send(
        "end_txn",
        4,
        transactional_id="tx",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=False,
    )
    fields = producer.fields(b"late", 1)
    (topic,) = fields["topic_data"]
    (other,) = producer.fields(b"late", 0)["topic_data"]
    both = (*topic.partition_data, replace(other.partition_data[0], index=1))
    producer.client.send("produce", V1, **{**fields, "topic_data": (replace(topic, partition_data=both),)})
    for _ in range(4):
        workers.run_all()
        await rig.clock.run(25)
    assert producer.told(V1) == ["invalid_txn_state", "transaction_abortable"]
    assert [answer(reply, "end_txn", 4).error_code.name for reply in ending.replies()] == ["none"]
    partition = rig.node.replicas.get("t", 0)
    assert partition is not None
    assert partition.last_stable_offset == partition.log_end_offset == 2
    await rig.stop()


async def test_a_delayed_write_that_was_verified_does_not_follow_the_decision_that_came_meanwhile() -> None:
    """Transactions V1: the verification waits for the partition's record to be there for good, and so does the end."""
    workers = QueuedWorkers()
    rig = Rig(workers=workers, config=CONFIG)
    await rig.start()
    producer = await opened(rig)
    await flushed_by_message(rig, workers, TRANSACTION_STATE_TOPIC_NAME)
    who = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    adding, ending = rig.connect(), rig.connect()
    adding.send(
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_topics=(AddPartitionsToTxnTopic(name="t", partitions=(0,)),),
        **{f"v3_and_below_{name}": value for name, value in who.items()},
    )
    await settle()
    producer.send(b"late", 0, V1)
    await settle()
    ending.send("end_txn", 4, transactional_id="tx", committed=False, **who)
    await settle()
    for _ in range(4):
        workers.run_all()
        await rig.clock.run(25)
    assert producer.told(V1) == ["transaction_abortable"]
    assert [answer(reply, "end_txn", 4).error_code.name for reply in ending.replies()] == ["none"]
    partition = rig.node.replicas.get("t", 0)
    assert partition is not None
    assert partition.last_stable_offset == partition.log_end_offset == 1
    await rig.stop()


async def test_a_transaction_ends_when_a_partition_is_deleted_whose_marker_is_not_there_for_good() -> None:
    rig, _, producer = await marker_held()
    await rig.delete("t")
    await rig.create("u")
    await rig.clock.run(50)
    producer.send(b"second", 0, topic="u")
    await rig.clock.run(50)
    assert producer.told() == ["none"]
    await rig.stop()


async def test_a_coordinator_that_could_not_be_loaded_hides_no_other_transaction() -> None:
    async with Rig(config=CONFIG | {"transaction.state.log.num.partitions": "2"}) as rig:
        producer = await opened(rig)
        runtime = rig.node.coordinators.transactions.runtime
        failed = next(context for context in runtime.contexts() if context.partition != partition_for(producer.name, 2))
        failed.unload(CoordinatorState.FAILED)
        listed = await producer.client.ask("list_transactions", 0, state_filters=(), producer_id_filters=())
        assert listed.error_code.name == "none"
        assert [one.transactional_id for one in listed.transaction_states] == [producer.name]
