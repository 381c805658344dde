"""A transaction's life: partitions, the decision, markers, timeouts, expiry, and restarts in between."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from coordinator.runtime.outcome import ProducerEpoch
from coordinator.transaction import transaction_coordinator_shard
from coordinator.transaction.marker_sender import FIRST_RETRY_MS, LONGEST_RETRY_MS
from coordinator.transaction.transaction_metadata import TV_0, TV_1, TV_2
from protocol.errors import (
    ConcurrentTransactions,
    InvalidPidMapping,
    InvalidTxnState,
    KafkaStorage,
    NotCoordinator,
    ProducerFenced,
    TransactionCoordinatorFenced,
    UnsupportedVersion,
)
from tests.unit.coordinator.transaction.rig import MINUTE_MS, Rig

P, Q = ("topic", 0), ("topic", 1)
BOTH = pytest.mark.parametrize("version", [TV_0, TV_2])
OUTCOMES = pytest.mark.parametrize("commit", [True, False])


@BOTH
@OUTCOMES
async def test_from_empty_to_complete(version: int, commit: bool) -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P, version=version).result()
    rig.add(producer, P, Q, version=version).result()
    after = rig.end(producer, commit, version=version).result()
    outcome = "Commit" if commit else "Abort"
    assert rig.states_in_log() == ["Empty", "Ongoing", "Ongoing", f"Prepare{outcome}", f"Complete{outcome}"]
    assert after.producer_epoch == (1 if version == TV_2 else 0)
    for partition in (P, Q):
        assert rig.partitions.log(partition).records == [(after, commit)]
    assert (rig.counts.committed, rig.counts.aborted) == (int(commit), int(not commit))


@BOTH
async def test_partitions_that_are_there_already_write_nothing(version: int) -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P, Q, version=version).result()
    rig.add(producer, Q, version=version).result()
    assert len(rig.states_in_log()) == 2
    assert rig.verified(producer, {P, Q})
    assert not rig.verified(producer, {P, ("topic", 2)})


@BOTH
async def test_end_txn_is_answered_once_the_prepare_record_is_committed(version: int) -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P, version=version).result()
    rig.log.hold = True
    ended = rig.end(producer, commit=True, version=version)
    assert not ended.done()
    assert rig.partitions.log(P).records == []
    rig.log.commit()
    assert ended.done()


@BOTH
async def test_concurrent_transactions_while_markers_are_written(version: int) -> None:
    """Asked of Kafka 4.1 while it wrote the markers of a hundred partitions."""
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P, version=version).result()
    rig.partitions.refuse = {P}
    after = rig.end(producer, commit=True, version=version).result()
    other, older = ProducerEpoch(7, 0), ProducerEpoch(after.producer_id, after.producer_epoch - 1)
    for who in (after, older, other):
        with pytest.raises(ConcurrentTransactions):
            rig.add(who, Q, version=version).result()
        for commit in (True, False):
            with pytest.raises(ConcurrentTransactions):
                rig.end(who, commit).result()
    for who, error in ((after, ConcurrentTransactions), (older, ProducerFenced), (other, InvalidPidMapping)):
        with pytest.raises(error):
            rig.verified(who, {P})
        for commit in (True, False):
            with pytest.raises(error):
                rig.end(who, commit, version=TV_0).result()
    rig.partitions.release()
    rig.clock.advance(1000)
    assert rig.end(producer, commit=True, version=version).result() == after
    rig.add(after, Q, version=version).result()


async def test_producer_fenced_and_invalid_producer_id_mapping_are_told_apart() -> None:
    rig = await Rig().started()
    with pytest.raises(InvalidPidMapping):
        rig.add(ProducerEpoch(5, 0), P).result()
    producer = rig.producer()
    for who, error in (
        (ProducerEpoch(producer.producer_id + 1, 0), InvalidPidMapping),
        (ProducerEpoch(producer.producer_id, 1), ProducerFenced),
    ):
        for request in (rig.add(who, P), rig.end(who, commit=True), rig.end(who, commit=False, version=TV_0)):
            with pytest.raises(error):
                request.result()
    assert rig.state() == "Empty"


async def test_kip_890_an_abort_of_nothing_raises_the_epoch_and_a_commit_gets_invalid_txn_state() -> None:
    rig = await Rig().started()
    producer = rig.producer()
    with pytest.raises(InvalidTxnState):
        rig.end(producer, commit=True).result()
    after = rig.end(producer, commit=False).result()
    assert after == ProducerEpoch(producer.producer_id, 1)
    assert rig.end(producer, commit=False).result() == after
    for commit in (True, False):
        with pytest.raises(InvalidTxnState):
            rig.end(rig.producer(), commit, version=TV_0).result()


@BOTH
@OUTCOMES
async def test_a_decision_outlives_the_coordinator(version: int, commit: bool) -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P, Q, version=version).result()
    rig.partitions.refuse = {Q}
    after = rig.end(producer, commit, version=version).result()
    assert rig.partitions.log(P).records == [(after, commit)]
    await rig.crashed()
    assert rig.state() == ("PrepareCommit" if commit else "PrepareAbort")
    rig.partitions.release()
    rig.clock.advance(1000)
    assert rig.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert rig.partitions.log(Q).records == [(after, commit)]
    assert rig.end(producer, commit, version=version).result() == after


async def test_a_decision_lost_with_the_log_was_never_told() -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P).result()
    rig.log.hold = True
    ended = rig.end(producer, commit=True)
    await rig.crashed(kept=rig.committed_batches)
    with pytest.raises(NotCoordinator):
        ended.result()
    assert rig.state() == "Ongoing"
    assert rig.end(producer, commit=False).result().producer_epoch == 1


@pytest.mark.parametrize(("version", "server_version"), [(TV_0, TV_0), (TV_0, TV_2), (TV_2, TV_2)])
async def test_the_transaction_timeout_aborts_and_fences_the_producer(version: int, server_version: int) -> None:
    rig = await Rig().started()
    rig.server_version = server_version
    producer = rig.producer()
    rig.add(producer, P, version=version).result()
    rig.clock.advance(MINUTE_MS)
    assert rig.state() == "Ongoing"
    rig.clock.advance(MINUTE_MS)
    assert rig.state() == "CompleteAbort"
    assert rig.partitions.log(P).records == [((producer.producer_id, 1), False)]
    with pytest.raises(ProducerFenced):
        rig.end(producer, commit=True, version=TV_0).result()
    assert rig.counts.timed_out == 1


async def test_the_timeout_counts_from_the_first_partition_over_a_restart() -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.clock.advance(MINUTE_MS)
    rig.add(producer, P).result()
    rig.clock.advance(MINUTE_MS // 2)
    await rig.crashed()
    rig.add(producer, Q).result()
    rig.clock.advance(MINUTE_MS // 2)
    assert rig.state() == "Ongoing"
    rig.clock.advance(20_000)
    assert rig.state() == "CompleteAbort"


@pytest.mark.parametrize("commit", [True, False])
async def test_unsupported_version_for_transactions_v2_below_transaction_version_1(commit: bool) -> None:
    """What Kafka 4.1 answers while transaction.version is 0; unlike there, the id is usable afterwards."""
    rig = await Rig().started()
    used = rig.producer("used by V2")
    rig.add(used, P, name="used by V2").result()
    rig.server_version = TV_0
    assert rig.end(used, commit, "used by V2", version=TV_0).result() == used
    assert rig.producer("used by V2").producer_epoch == 1
    producer = rig.producer()
    for _ in range(2):
        with pytest.raises(UnsupportedVersion):
            rig.add(producer, P).result()
        with pytest.raises(InvalidTxnState if commit else UnsupportedVersion):
            rig.end(producer, commit).result()
    rig.add(producer, P, version=TV_0).result()
    rig.add(producer, P).result()  # it is there already
    with pytest.raises(UnsupportedVersion):
        rig.end(producer, commit).result()
    assert rig.end(producer, commit, version=TV_0).result() == producer
    rig.server_version = TV_1
    rig.add(producer, P).result()
    assert rig.end(producer, commit).result().producer_epoch == 1


async def test_transaction_markers_are_tried_again_until_they_are_written() -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P).result()
    rig.partitions.refuse = {P}
    rig.end(producer, commit=True).result()
    rig.clock.advance(10_000)
    assert rig.state() == "PrepareCommit"
    rig.partitions.release()
    rig.clock.advance(LONGEST_RETRY_MS)
    assert rig.state() == "CompleteCommit"


async def test_markers_are_tried_again_more_and_more_rarely() -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P).result()
    rig.partitions.refuse = {P}
    rig.end(producer, commit=True).result()
    with capture_logs() as lines:
        rig.clock.advance(300)
        assert rig.counts.marker_retries == 3
        rig.clock.advance(60 * MINUTE_MS)
    assert 1_700 < rig.counts.marker_retries < 1_900
    assert [line["tries"] for line in lines if "marker" in line["event"]] == [2**n for n in range(1, 11)]


async def test_without_room_for_the_completion_no_second_marker_is_written() -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P).result()
    rig.partitions.hold = {P}
    rig.end(producer, commit=True).result()
    rig.log.fail_with = KafkaStorage()
    rig.partitions.release()
    await asyncio.sleep(0)
    rig.clock.advance(10_000)
    assert (rig.state(), rig.counts.committed) == ("PrepareCommit", 0)
    rig.log.fail_with = None
    rig.clock.advance(LONGEST_RETRY_MS)
    assert (rig.state(), rig.counts.committed) == ("CompleteCommit", 1)
    assert [partition.value for partition in rig.partitions.log(P).records] == [True]


async def test_a_bug_under_one_marker_keeps_no_transaction_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P, Q).result()
    with monkeypatch.context() as patch:
        patch.setitem(rig.partitions.logs, P, None)
        rig.end(producer, commit=True).result()
    assert rig.state() == "PrepareCommit"
    rig.clock.advance(FIRST_RETRY_MS)
    assert rig.state() == "CompleteCommit"
    assert [[one.value for one in rig.partitions.log(one).records] for one in (P, Q)] == [[True], [True]]


async def test_a_partition_with_a_newer_epoch_needs_no_marker() -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P).result()
    rig.partitions.log(P).append(ProducerEpoch(producer.producer_id, 9), "of another")
    rig.end(producer, commit=True).result()
    assert rig.state() == "CompleteCommit"


async def test_transaction_coordinator_fenced_leaves_the_marker_to_the_newer_coordinator() -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P).result()
    rig.partitions.refuse = {P}
    rig.partitions.refusal = TransactionCoordinatorFenced()
    with capture_logs() as lines:
        rig.end(producer, commit=True).result()
        rig.clock.advance(60 * MINUTE_MS)
    (line,) = (line for line in lines if "marker" in line["event"])
    assert (line["log_level"], line["transactional_id"], line["partition"]) == ("error", "tx", "topic-0")
    assert (rig.state(), rig.counts.marker_retries) == ("PrepareCommit", 0)
    rig.partitions.release()
    await rig.crashed()
    assert rig.state() == "CompleteCommit"


async def test_the_log_says_who_fenced_whom() -> None:
    rig = await Rig().started()
    old = rig.producer()
    rig.add(old, P).result()
    with capture_logs() as lines:
        for _ in range(2):
            rig.init(client="newer at 10.0.0.7").result()
    fenced, begun = (line for line in lines if "fenced" in line)
    common = {"transactional_id": "tx", "by": "newer at 10.0.0.7", "fenced": f"{old.producer_id} epoch 0"}
    assert fenced == common | {
        "event": "open transaction fenced by a new producer, and aborted",
        "log_level": "warning",
    }
    assert begun == common | {
        "event": "producer initialized",
        "log_level": "info",
        "fenced": f"{old.producer_id} epoch 1",
        "producer_id": old.producer_id,
        "producer_epoch": 2,
    }


async def test_the_log_says_whose_transaction_took_too_long() -> None:
    rig = await Rig().started()
    producer = rig.producer()
    rig.add(producer, P).result()
    with capture_logs() as lines:
        rig.clock.advance(2 * MINUTE_MS)
    (line,) = (line for line in lines if line["log_level"] == "warning")
    assert line == {
        "event": "transaction timed out: its producer is fenced",
        "log_level": "warning",
        "transactional_id": "tx",
        "producer_id": producer.producer_id,
        "producer_epoch": 0,
        "timeout_ms": MINUTE_MS,
    }


async def test_transactional_id_expiration_ms_counts_while_no_transaction_is_open() -> None:
    day = 24 * 60 * MINUTE_MS
    rig = await Rig(id_expiration_ms=day).started()
    rig.producer("idle")
    rig.add(rig.producer("busy"), P, name="busy").result()
    rig.partitions.hold = {P}
    rig.clock.advance(day + 61 * MINUTE_MS)
    assert rig.state("idle") == "none"
    assert rig.state("busy") == "PrepareAbort"
    assert rig.states_in_log()[-1] == "gone"
    assert rig.counts.expired_ids == 1
    await rig.crashed()
    assert rig.state("idle") == "none"
    assert rig.producer("idle").producer_epoch == 0


async def test_a_flood_of_transactional_ids_expires_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_coordinator_shard, "IDS_IN_A_TURN", 2)
    day = 24 * 60 * MINUTE_MS
    rig = await Rig(id_expiration_ms=day).started()
    for number in range(5):
        rig.producer(f"id-{number}")
    while not rig.counts.expired_ids:
        rig.clock.advance(MINUTE_MS)
    assert rig.counts.expired_ids == 2
    rig.producer("id-4")  # it is used again, just in time
    rig.clock.advance(10)
    assert rig.counts.expired_ids == 4
    assert rig.state("id-4") != "none"
