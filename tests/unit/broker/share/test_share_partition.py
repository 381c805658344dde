"""A share partition over a coordinator in memory, in virtual time: persisting, locks, fencing, letters."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch
from uuid import UUID

import pytest

from broker.share.runs import AcknowledgeType, Acquired, LetterCause, RecordState, Rules, Run, Wish
from broker.share.share_partition import RETRY_MS, SharePartition
from coordinator.share.share_coordinator_shard import ShareWrite, merge
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue
from protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    GroupIdNotFound,
    InvalidRecordState,
    InvalidRequest,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from tests.doubles.clock import ManualClock

KEY = SharePartitionKey("g", UUID(int=1), 0)
ACCEPT, RELEASE, REJECT = (AcknowledgeType.ACCEPT,), (AcknowledgeType.RELEASE,), (AcknowledgeType.REJECT,)
LOCK_MS = 30_000.0

pytestmark = pytest.mark.asyncio


class Coordinator:
    """A share coordinator that keeps one state. It answers in the next turn of the loop; with `hold` when released."""

    def __init__(self) -> None:
        self.state = ShareSnapshotValue(0, 1, 0, -1, 0, 0, ())
        self.error: Exception | None = None
        self.hold = False
        self.writes: list[ShareWrite] = []
        self._held: list[tuple[ShareWrite, Future[None]]] = []

    def write(self, key: SharePartitionKey, wanted: ShareWrite) -> Future[None]:
        future: Future[None] = asyncio.get_running_loop().create_future()
        self._held.append((wanted, future))
        if not self.hold:
            self.release()
        return future

    def release(self) -> None:
        held, self._held = self._held, []
        for wanted, future in held:
            if future.cancelled():
                continue
            if self.error is not None:
                future.set_exception(self.error)
                continue
            self.writes.append(wanted)
            batches = merge(self.state.batches, wanted.batches, wanted.start_offset)
            self.state = self.state._replace(start_offset=wanted.start_offset, batches=batches)
            future.set_result(None)


class Queue:
    """Dead letter queues that note what was written."""

    def __init__(self) -> None:
        self.letters: list[tuple[int, int, LetterCause]] = []

    def write(self, key: SharePartitionKey, runs: Sequence[tuple[Run, LetterCause]]) -> Future[None]:
        self.letters += [(run.first, run.last, cause) for run, cause in runs]
        done: Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class Rig:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.coordinator = Coordinator()
        self.queue = Queue()
        self.rules = Rules(max_deliveries=5, max_locks=2000, lock_ms=LOCK_MS)
        self.partition = self.loaded()

    def loaded(self) -> SharePartition:
        return SharePartition(
            KEY, 0, self.coordinator.state, 10, lambda: self.rules, self.coordinator.write, self.queue.write, self.clock
        )

    def acquire(self, first: int, last: int, member: str = "m") -> list[tuple[int, int, int]]:
        got = self.partition.acquire(member, first, [(first, last)], Wish(500, 500))
        return [(one.first, one.last, one.delivery_count) for one in got if isinstance(one, Acquired)]

    def states(self) -> list[tuple[int, int, RecordState]]:
        return [(run.first, run.last, run.state) for run in self.partition.in_flight()]


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_an_acknowledgement_is_answered_when_it_is_durable() -> None:
    rig = Rig()
    rig.coordinator.hold = True
    assert rig.acquire(10, 19) == [(10, 19, 1)]
    answer = rig.partition.acknowledge("m", [(10, 14, ACCEPT)])
    await turns()
    assert not answer.done()
    assert rig.partition.start_offset == 10
    rig.coordinator.release()
    await answer
    assert rig.partition.start_offset == 15
    assert rig.coordinator.writes[0].complete_count == 5


async def test_changes_that_come_during_a_write_go_together_in_the_next() -> None:
    rig = Rig()
    rig.coordinator.hold = True
    rig.acquire(10, 19)
    answers = [rig.partition.acknowledge("m", [(10 + at, 10 + at, ACCEPT)]) for at in range(1)]
    await turns()
    answers += [rig.partition.acknowledge("m", [(11 + at, 11 + at, ACCEPT)]) for at in range(5)]
    rig.coordinator.hold = False
    rig.coordinator.release()
    await asyncio.gather(*answers)
    assert len(rig.coordinator.writes) == 2
    assert rig.partition.start_offset == 16


async def test_a_failed_write_leaves_the_records_acquired() -> None:
    rig = Rig()
    rig.acquire(10, 19)
    rig.coordinator.error = CoordinatorLoadInProgress()
    with pytest.raises(CoordinatorNotAvailable):
        await rig.partition.acknowledge("m", [(10, 19, ACCEPT)])
    rig.coordinator.error = None
    await rig.partition.acknowledge("m", [(10, 19, ACCEPT)])
    assert rig.partition.start_offset == 20


async def test_an_acknowledgement_whose_write_fails_unexpectedly_is_answered_too() -> None:
    rig = Rig()
    rig.acquire(10, 19)
    rig.coordinator.error = RuntimeError("a bug")
    answer = rig.partition.acknowledge("m", [(10, 19, ACCEPT)])
    await turns()
    assert answer.done()
    assert isinstance(answer.exception(), UnknownServerError)
    rig.coordinator.error = None
    await rig.partition.acknowledge("m", [(10, 19, ACCEPT)])
    assert rig.partition.start_offset == 20


async def test_an_acquisition_lock_that_ends_makes_records_available_for_another_member() -> None:
    rig = Rig()
    rig.acquire(10, 19)
    rig.clock.advance(LOCK_MS - 1)
    assert rig.acquire(10, 19, "n") == []
    rig.clock.advance(1)
    await turns()
    assert rig.acquire(10, 19, "n") == [(10, 19, 2)]
    with pytest.raises(InvalidRecordState):
        rig.partition.acknowledge("m", [(10, 19, ACCEPT)])


async def test_an_acquisition_lock_that_ended_while_the_coordinator_was_away_ends_later() -> None:
    rig = Rig()
    rig.acquire(10, 19)
    rig.coordinator.error = CoordinatorLoadInProgress()
    rig.clock.advance(LOCK_MS)
    await turns()
    assert rig.acquire(10, 19, "n") == []
    rig.coordinator.error = None
    rig.clock.advance(RETRY_MS)
    await turns()
    assert rig.acquire(10, 19, "n") == [(10, 19, 2)]


async def test_renewing_holds_the_acquisition_lock() -> None:
    rig = Rig()
    rig.acquire(10, 19)
    rig.clock.advance(LOCK_MS / 2)
    await rig.partition.acknowledge("m", [(10, 14, (AcknowledgeType.RENEW,))])
    rig.clock.advance(LOCK_MS / 2)
    await turns()
    assert rig.states() == [(10, 14, RecordState.ACQUIRED), (15, 19, RecordState.AVAILABLE)]


async def test_the_end_of_a_share_session_releases_what_it_holds_and_the_delivery_counts() -> None:
    rig = Rig()
    rig.acquire(10, 19)
    await rig.partition.release({"m"})[1]
    assert rig.loaded().in_flight()[0].delivery_count == 1
    assert rig.acquire(10, 19, "n") == [(10, 19, 2)]


async def test_a_newer_owner_ends_it() -> None:
    rig = Rig()
    rig.acquire(10, 19)
    rig.coordinator.error = FencedStateEpoch()
    with pytest.raises(NotLeaderOrFollower):
        await rig.partition.acknowledge("m", [(10, 19, ACCEPT)])
    assert rig.partition.fenced
    assert not rig.partition.can_acquire


async def test_dead_letters_are_written_before_the_start_offset_moves() -> None:
    rig = Rig()
    rig.rules = replace(rig.rules, dead_letters=True)
    rig.acquire(10, 11)
    await rig.partition.acknowledge("m", [(10, 11, REJECT)])
    await turns()
    assert rig.queue.letters == [(10, 11, LetterCause.REJECTED)]
    assert rig.partition.start_offset == 12


async def test_records_whose_dead_letters_fail_unexpectedly_are_given_up_all_the_same() -> None:
    rig = Rig()
    rig.rules = replace(rig.rules, dead_letters=True)

    def fail(_key: SharePartitionKey, _runs: Sequence[tuple[Run, LetterCause]]) -> Future[None]:
        failed: Future[None] = asyncio.get_running_loop().create_future()
        failed.set_exception(RuntimeError("a bug"))
        return failed

    with patch.object(rig.queue, "write", fail):
        rig.partition = rig.loaded()
    rig.acquire(10, 19)
    await rig.partition.acknowledge("m", [(10, 19, REJECT)])
    await turns()
    assert rig.partition.start_offset == 20


async def test_dead_letters_whose_writing_was_not_noted_are_noted_later_and_sent_again_after_a_restart() -> None:
    rig = Rig()
    rig.rules = replace(rig.rules, dead_letters=True)
    rig.acquire(10, 11)
    rig.coordinator.hold = True
    answer = rig.partition.acknowledge("m", [(10, 11, REJECT)])
    await turns()
    rig.coordinator.release()
    rig.coordinator.error = CoordinatorLoadInProgress()
    rig.coordinator.hold = False
    await answer
    await turns()
    assert (rig.partition.start_offset, len(rig.queue.letters)) == (10, 1)
    other = rig.loaded()
    await turns()
    other.close()
    assert len(rig.queue.letters) == 2
    rig.coordinator.error = None
    rig.clock.advance(RETRY_MS)
    await turns()
    assert rig.partition.start_offset == 12


async def test_what_is_being_written_fails_too_when_the_partition_is_led_elsewhere() -> None:
    """The coordinator may take a while, or be gone for good: no member waits for it."""
    rig = Rig()
    rig.coordinator.hold = True
    rig.acquire(10, 19)
    answers = [rig.partition.acknowledge("m", [(10, 10, ACCEPT)])]
    await turns()
    answers.append(rig.partition.acknowledge("m", [(11, 11, ACCEPT)]))
    rig.partition.close()
    await turns()
    assert [type(one.exception()) for one in answers if one.done()] == [NotLeaderOrFollower, NotLeaderOrFollower]
    rig.coordinator.release()
    await turns()
    assert len(rig.coordinator.writes) == 0


async def test_nothing_is_acquired_once_the_partition_is_led_elsewhere() -> None:
    rig = Rig()
    rig.partition.close()
    with pytest.raises(NotLeaderOrFollower):
        rig.acquire(10, 19)


async def test_a_delivery_count_limit_lowered_meanwhile_holds_at_once() -> None:
    rig = Rig()
    for _ in range(3):
        rig.acquire(10, 10)
        await rig.partition.release({"m"})[1]
    rig.rules = replace(rig.rules, max_deliveries=2)
    assert rig.acquire(10, 11) == [(11, 11, 1)]
    await turns()
    assert rig.partition.start_offset == 11


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (NotCoordinator, CoordinatorNotAvailable),
        (CoordinatorNotAvailable, CoordinatorNotAvailable),
        (CoordinatorLoadInProgress, CoordinatorNotAvailable),
        (GroupIdNotFound, GroupIdNotFound),
        (UnknownTopicOrPartition, UnknownTopicOrPartition),
        (FencedLeaderEpoch, NotLeaderOrFollower),
        (FencedStateEpoch, NotLeaderOrFollower),
        (InvalidRequest, UnknownServerError),
    ],
)
async def test_a_member_is_told_of_errors_of_the_coordinator_as_in_kafka(
    error: type[KafkaError], answer: type[KafkaError]
) -> None:
    rig = Rig()
    rig.acquire(10, 19)
    rig.coordinator.error = error()
    with pytest.raises(answer) as raised:
        await rig.partition.acknowledge("m", [(10, 19, ACCEPT)])
    assert type(raised.value) is answer


async def test_a_dead_letter_is_sent_for_what_is_left_when_the_log_start_moves_into_it() -> None:
    rig = Rig()
    rig.rules = replace(rig.rules, dead_letters=True)
    rig.acquire(10, 19)
    rig.coordinator.hold = True
    answer = rig.partition.acknowledge("m", [(10, 19, REJECT)])
    await turns()
    rig.partition.advance_log_start(15)
    rig.coordinator.hold = False
    rig.coordinator.release()
    await answer
    await turns()
    assert rig.queue.letters == [(15, 19, LetterCause.REJECTED)]
    assert rig.partition.start_offset == 20
