"""Each rule about a topic, a transactional id, and what the test itself has done."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.txn_offset_commit.v3.request import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic

from broker.replication.log_maintenance import delete_records
from broker.testkit.control.faults import faults_of
from broker.testkit.explain import KIT_RULES, a_fault_is_set, clock_is_frozen
from broker.testkit.explain.situations import KitView, seconds
from odradek.explain_rules import ask, counted, listed
from tests.unit.broker.members import CONFIG, TICK_MS, commit
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control, keep_journal
from tests.unit.broker.testkit.explain.findings import found
from tests.unit.broker.transactions import Producer
from tests.unit.broker.wire import batch, produce


async def fill(rig: Rig, count: int) -> None:
    await rig.connect().ask("produce", 9, **produce("t", {0: batch(*[b"v"] * count)}))


async def producing(rig: Rig, name: str = "payments") -> Producer:
    """A producer with an open transaction in t-0."""
    keep_journal(rig)
    await rig.create("t")
    await rig.node.coordinators.transactions.ensure_topic()
    producer = Producer(rig.connect(), name)
    await producer.init()
    assert await producer.produce(b"a", 0) == ["none"]
    return producer


# -- topics


async def test_fewer_in_sync_replicas_than_wanted_refuse_producers() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", min_insync_replicas="2")
        finding = (await found(rig, topic="t"))["not_enough_replicas"]
        assert finding["severity"] == "problem"
        assert "t-0 (1): fewer replicas are in sync than min.insync.replicas, 2" in finding["text"]
        await rig.create("u")
        assert "not_enough_replicas" not in await found(rig, topic="u")


async def test_a_topic_that_does_not_exist_has_a_near_name() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("orders")
        finding = (await found(rig, topic="order"))["topic_does_not_exist"]
        assert (finding["severity"], "Did you mean orders?" in finding["advice"]) == ("problem", True)


async def test_a_topic_without_records_and_readers_says_so() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        rules = await found(rig, topic="t")
        assert "nothing was ever written to its 2 partitions" in rules["has_no_records"]["text"]
        assert "no group subscribes to topic t" in rules["is_read_by"]["text"]
        await fill(rig, 3)
        await commit(rig.connect(), "g", "t", {0: 0})
        rules = await found(rig, topic="t")
        assert rules.keys() == {"is_read_by", "has_records"}
        assert rules["is_read_by"]["text"] == "topic t is read by g"
        assert rules["has_records"]["text"] == "topic t has records (t-0: 0 to 3)"


async def test_deleted_records_are_told_of_with_the_retention() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", retention_ms="60000")
        await fill(rig, 3)
        delete_records(rig.node.replicas.find("t", 0), 3)
        finding = (await found(rig, topic="t"))["records_were_deleted"]
        assert "(retention.ms: 60 s) or on request: t-0 starts at 3 and has none left" in finding["text"]


async def test_a_held_topic_names_the_transaction() -> None:
    async with Rig(config=CONFIG) as rig:
        await producing(rig)
        finding = (await found(rig, topic="t"))["held_by_transaction"]
        assert "held at 0 by the transaction of transactional id payments (client test at 10.0.0.7)" in finding["text"]


# -- transactions


async def test_an_unknown_transactional_id_has_a_near_name() -> None:
    async with Rig(config=CONFIG) as rig:
        await producing(rig)
        finding = (await found(rig, transactional_id="payment"))["does_not_exist"]
        assert (finding["severity"], "Did you mean payments?" in finding["advice"]) == ("problem", True)


async def test_an_open_transaction_says_since_when_until_when_and_whom_it_holds() -> None:
    async with Rig(config=CONFIG) as rig:
        await producing(rig)
        await rig.clock.run(20_000)
        rules = await found(rig, transactional_id="payments")
        assert rules["is_open"]["text"] == (
            "the transaction of client test at 10.0.0.7 has been open for 20 s in t-0; its last request (Produce) was "
            "20 s ago; the coordinator aborts it in 40 s (transaction.timeout.ms 60000; it looks every 10 s)"
        )
        assert "1 record of t-0 behind it" in rules["holds_readers"]["text"]


async def test_a_fenced_producer_is_named() -> None:
    async with Rig(config=CONFIG) as rig:
        producer = await producing(rig)
        await control(rig, "POST", "/transactions/payments/abort")
        await producer.produce(b"b", 1)
        rules = await found(rig, transactional_id="payments")
        assert (
            "client test at 10.0.0.7 is fenced: its Produce was answered INVALID_PRODUCER_EPOCH 0.0 s ago"
            in (rules["producer_is_fenced"]["text"])
        )
        assert "was aborted" in rules["last_one_was_aborted"]["text"]


async def test_a_committed_transaction_leaves_nothing_open() -> None:
    async with Rig(config=CONFIG) as rig:
        producer = await producing(rig)
        assert await producer.end(True) == "none"
        rules = await found(rig, transactional_id="payments")
        assert rules.keys() == {"none_is_open"}
        assert "The last one was committed." in rules["none_is_open"]["text"]


async def test_markers_that_cannot_be_written_name_their_partitions() -> None:
    async with Rig(config=CONFIG) as rig:
        producer = await producing(rig)
        rig.node.replicas.get("t", 0).log.fail(OSError("gone"))
        assert await producer.end(True) == "none"
        finding = (await found(rig, transactional_id="payments"))["markers_are_pending"]
        assert "(PrepareCommit), and its markers are not written yet in t-0; offline are t-0" in finding["text"]


async def test_commits_in_an_open_transaction_are_told_of() -> None:
    async with Rig(config=CONFIG) as rig:
        producer = await producing(rig)
        await rig.node.coordinators.groups.ensure_topic()
        ids = {"transactional_id": "payments", "producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        added = await producer.client.ask("add_offsets_to_txn", 3, **ids, group_id="g")
        assert added.error_code.name == "none"
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=None
        )
        done = await producer.client.ask(
            "txn_offset_commit",
            3,
            **ids,
            group_id="g",
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
        )
        assert done.topics[0].partitions[0].error_code.name == "none"
        finding = (await found(rig, group="g"))["commits_wait_for_transaction"]
        assert "an open transaction has committed offsets of t-0" in finding["text"]


async def test_a_group_of_another_protocol_type_keeps_its_subscriptions_to_itself() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.node.coordinators.groups.ensure_topic()
        client = rig.connect()
        client.send(
            "join_group",
            9,
            group_id="workers",
            session_timeout=timedelta(seconds=10),
            rebalance_timeout=timedelta(seconds=10),
            member_id="",
            group_instance_id="i1",
            protocol_type="connect",
            protocols=(JoinGroupRequestProtocol(name="sessioned", metadata=b"x"),),
            reason=None,
        )
        await rig.clock.run(TICK_MS)
        assert "protocol type connect" in (await found(rig, group="workers"))["subscriptions_are_unknown"]["text"]


# -- the kit, and words


def test_what_the_test_has_done_is_told_of() -> None:
    (fault,) = a_fault_is_set(KitView(faults=("Fetch is delayed",)))
    (clock,) = clock_is_frozen(KitView(clock_is_frozen=True))
    assert "Fetch is delayed" in fault.text
    assert "broker.clock.resume()" in clock.advice
    assert [*a_fault_is_set(KitView()), *clock_is_frozen(KitView())] == []
    found = [one.rule for one in ask(KIT_RULES, KitView(("Fetch is delayed",), clock_is_frozen=True))]
    assert found == ["a_fault_is_set", "clock_is_frozen"]
    assert {fault.severity} == {"warning"}


def test_words_for_numbers() -> None:
    assert [seconds(ms) for ms in (-5, 449, 9_949, 9_950, 60_000)] == ["0.0 s", "0.4 s", "9.9 s", "10 s", "60 s"]
    assert (counted(1, "record"), counted(0, "record")) == ("1 record", "0 records")
    assert (listed("abcde"), listed("abcdefg")) == ("a, b, c, d, e", "a, b, c, d, e and 2 more")


async def test_a_fault_that_may_strike_here_is_told_of_and_one_for_something_else_is_not() -> None:
    async with Rig(config=CONFIG) as rig:
        rig.node.faults = faults_of(rig.node)
        await rig.create("t")
        await control(rig, "POST", "/faults", api="Fetch", topic="t", delay=0.5, count=3)
        await control(rig, "POST", "/faults", api="Produce", topic="u", error="NOT_LEADER_OR_FOLLOWER")
        await control(rig, "POST", "/faults", api="Fetch", observe=True)
        finding = (await found(rig, topic="t"))["a_fault_is_set"]
        assert finding["text"] == (
            "a fault of the test is set: Fetch of topic t: delayed by 0.5 s (has struck 0 times, 3 more times)"
        )
        assert (
            "Produce of topic u: answered NOT_LEADER_OR_FOLLOWER"
            in ((await found(rig, topic="u"))["a_fault_is_set"]["text"])
        )
        assert "a_fault_is_set" not in await found(rig, topic="v")
        assert "a_fault_is_set" not in await found(rig, group="g")
        await control(rig, "POST", "/faults", api="JoinGroup", group="g", drop="reply")
        assert "the reply is lost" in (await found(rig, group="g"))["a_fault_is_set"]["text"]
