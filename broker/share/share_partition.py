"""A share partition: a partition as a share group sees it, on the node that leads it (Kafka's `SharePartition`).

How it works: the state of what is in flight (`in_flight.py`) is loaded from the share coordinator when a member first
fetches. Acquiring changes it at once. An acknowledgement, the end of a lock and the end of a session make a
`RunsChange`, which is written to the coordinator; changes that come while a write is under way go together in the next.
When the write is done the change holds, and its answer is sent; if it fails, the records are as they were.

If the coordinator says that a newer leader or a newer state is there, this share partition is over (`fenced`): the next
fetch loads it anew.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Collection, Sequence

import structlog

from broker.share.in_flight import InFlight
from broker.share.runs import AcknowledgeType, Acquired, LetterCause, RecordState, Rules, Run, RunsChange, Wish
from coordinator.share.share_coordinator_shard import ShareWrite
from protocol.coordinator_records.share_records import NO_START_OFFSET, SharePartitionKey, ShareSnapshotValue
from protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    GroupIdNotFound,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from timing.clock import Clock, Timer

logger = structlog.get_logger(__name__)

RETRY_MS = 1000.0
"""How long a state waits that could not be written, unless another write comes first."""

_OVER = (FencedLeaderEpoch, FencedStateEpoch, GroupIdNotFound, UnknownTopicOrPartition, NotLeaderOrFollower)

Ranges = Sequence[tuple[int, int, Sequence[AcknowledgeType]]]


Persist = Callable[[SharePartitionKey, ShareWrite], Future[None]]
"""Writes a state to the share coordinator: done when it is durable, or with the coordinator's KafkaError."""

SendLetters = Callable[[SharePartitionKey, Sequence[tuple[Run, LetterCause]]], Future[None]]
"""Writes the dead letters of records that are given up: done when all are written, or cannot be; it never fails."""


class SharePartition:
    """Operations on a share partition that was loaded.

    Attributes:
        fenced: somebody else looks after it now.
        reading: a fetch reads records of it; another one waits, or both would get the same.
        missed: there may be more to acquire since that fetch began to read.
        on_available: called when there may be more to acquire.
    """

    def __init__(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        loaded: ShareSnapshotValue,
        start_offset: int,
        rules: Callable[[], Rules],
        persist: Persist,
        send_letters: SendLetters,
        clock: Clock,
    ) -> None:
        """`start_offset` counts if `loaded` has none. `rules` returns the group's settings as they are now."""
        self.key = key
        self.fenced = False
        self.reading = False
        self.missed = False
        self._read: Future[None] | None = None
        self.on_available: Callable[[], None] = lambda: None
        self.leader_epoch = leader_epoch
        self._state_epoch = loaded.state_epoch
        self._rules = rules
        self._persist_state = persist
        self._write_letters = send_letters
        self._clock = clock
        self._timer: Timer | None = None
        self._not_before_ms = 0.0
        self._lettered: list[Run] = []
        self._waiting: list[tuple[RunsChange, Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()
        start = start_offset if loaded.start_offset == NO_START_OFFSET else loaded.start_offset
        self._in_flight = InFlight(start, loaded.batches)
        self._resume_letters()

    @property
    def start_offset(self) -> int:
        return self._in_flight.start_offset

    @property
    def complete_count(self) -> int:
        """How many records after the start offset are done (`deliveryCompleteCount`)."""
        return self._in_flight.completed

    @property
    def next_fetch_offset(self) -> int:
        return self._in_flight.next_fetch_offset()

    def last_acquirable(self, max_records: int) -> int:
        """The last offset that a member may acquire who wants so many records, but for the end of its batch."""
        return max(self.next_fetch_offset, self._in_flight.end_offset + 1) + max_records - 1

    @property
    def can_acquire(self) -> bool:
        """Whether a member may acquire something, if the log has it."""
        return not self.fenced and not self.reading and self._in_flight.can_acquire(self._rules())

    def in_flight(self) -> Sequence[Run]:
        return self._in_flight.runs

    # -- whose turn it is to read

    def begin_reading(self) -> None:
        self.reading, self.missed = True, False

    def end_reading(self) -> None:
        self.reading = False
        if self._read is not None:
            self._read.set_result(None)
            self._read = None

    def read(self) -> Future[None]:
        """Done when the fetch that reads records of it has read them; not to be cancelled."""
        if self._read is None:
            self._read = asyncio.get_running_loop().create_future()
        return self._read

    # -- what members do

    def acquire(self, member_id: str, offset: int, batches: Sequence[tuple[int, int]], wish: Wish) -> list[Acquired]:
        """Acquire what is available of record batches that were read from `offset` on, given by first and last offset.

        Raises NotLeaderOrFollower if somebody else looks after it by now.
        """
        if self.fenced:
            raise NotLeaderOrFollower
        rules = self._rules()
        self._persist(self._in_flight.give_up_over_limit(rules))
        if batches and offset < batches[0][0]:
            self._persist(self._in_flight.give_up_missing(offset, batches[0][0]))
        acquired = self._in_flight.acquire(member_id, batches, wish, rules, self._clock.monotonic_ms())
        if acquired:
            self._watch_locks()
        return acquired

    def archive_aborted(self, ranges: Sequence[tuple[int, int]], member_id: str) -> None:
        """Give up records that were just acquired but belong to aborted transactions; nobody is told of them."""
        types = [(first, last, (AcknowledgeType.GAP,)) for first, last in ranges]
        self._persist(self._in_flight.acknowledge(member_id, types, self._rules(), self._clock.monotonic_ms()))

    def acknowledge(self, member_id: str, ranges: Ranges) -> Future[None]:
        """Acknowledge; the future is done when that is durable. Raises InvalidRequest, InvalidRecordState."""
        change = self._in_flight.acknowledge(member_id, ranges, self._rules(), self._clock.monotonic_ms())
        return self._persist(change)

    def release(self, member_ids: Collection[str] | None = None, offset: int | None = None) -> tuple[int, Future[None]]:
        """Release what these members have acquired, or what all have: everything, or the record at one offset.

        Returns how many records that is, and a future that is done when it is durable.
        """
        change = self._in_flight.release(self._in_flight.acquired(member_ids, offset), self._rules())
        return _count(change), self._persist(change)

    def expire_locks(
        self, member_ids: Collection[str] | None = None, offset: int | None = None
    ) -> tuple[int, Future[None]]:
        """Let locks end now; otherwise as `release`."""
        now_ms = self._clock.monotonic_ms()
        for run in self._in_flight.acquired(member_ids, offset):
            run.locked_until_ms = now_ms
        change = self._release_expired()
        return _count(change), self._persist(change)

    def advance_log_start(self, log_start_offset: int) -> None:
        """Drop records below, which were deleted from the log."""
        self._in_flight.advance_log_start(log_start_offset)

    def close(self) -> None:
        """End: nothing is written or expires any more, and what waits for a write fails."""
        self.fenced = True
        self._stop_timer()
        if self._writing is not None:
            self._writing.cancel()
        for task in self._sending:
            task.cancel()
        self._fail_waiting(NotLeaderOrFollower())

    # -- locks

    def _watch_locks(self) -> None:
        """Let the timer run for the lock that ends first, or for letters that are not yet noted as written."""
        is_owed = bool(self._lettered) and any(not run.changing for run in self._lettered)
        expiry_ms = self._not_before_ms if is_owed else self._in_flight.next_expiry_ms()
        if self._timer is None and expiry_ms is not None and not self.fenced:
            wait_ms = max(expiry_ms, self._not_before_ms) - self._clock.monotonic_ms()
            self._timer = self._clock.call_later(max(0.0, wait_ms), self._time_is_over)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_over(self) -> None:
        self._timer = None
        self._archive()
        self._persist(self._release_expired())
        self._watch_locks()

    def _release_expired(self) -> RunsChange:
        change = self._in_flight.release_expired(self._rules(), self._clock.monotonic_ms())
        if change:
            logger.info("acquired records not acknowledged in time", **self._named(), records=_count(change))
        return change

    # -- persisting

    def _persist(self, change: RunsChange) -> Future[None]:
        future: Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may wait for it
        if not change:
            future.set_result(None)
            return future
        self._waiting.append((change, future))
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())
        return future

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                await self._write(taken)
        finally:
            self._writing = None

    async def _write(self, taken: list[tuple[RunsChange, Future[None]]]) -> None:
        batches = [batch for change, _ in taken for batch in change.batches()]
        completed = self._in_flight.completed_with([change for change, _ in taken])
        wanted = ShareWrite(
            self._state_epoch, self.leader_epoch, self._in_flight.start_offset, tuple(batches), completed
        )
        try:
            await self._persist_state(self.key, wanted)
        except asyncio.CancelledError:  # by `close`; the write may still be done
            self._fail(taken, NotLeaderOrFollower())
            raise
        except Exception as error:  # unforeseen ones, too: members wait for their answers
            told = error if isinstance(error, KafkaError) else UnknownServerError()
            self._fail(taken, for_member(told))
            why = None if told is error else error
            logger.warning("state of a share partition not written", **self._named(), error=str(error), exc_info=why)
            self.fenced |= isinstance(error, _OVER)
            self._not_before_ms = self._clock.monotonic_ms() + RETRY_MS
            self._stop_timer()
        else:
            for change, future in taken:
                self._in_flight.commit(change)
                if not future.done():
                    future.set_result(None)
                self._send_letters(change.letters())
            self._lettered = [run for run in self._lettered if run.state is RecordState.ARCHIVING and run.count > 0]
        self._watch_locks()
        self.on_available()

    def _fail_waiting(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, []
        self._fail(waiting, error)

    def _fail(self, changes: Sequence[tuple[RunsChange, Future[None]]], error: KafkaError) -> None:
        for change, future in changes:
            self._in_flight.roll_back(change)
            if not future.done():
                future.set_exception(error)

    # -- dead letters

    def _resume_letters(self) -> None:
        """Letters that were on their way when the state was persisted are sent again: at least once each."""
        self._send_letters([(run, LetterCause.REJECTED) for run in self._in_flight.archiving()])

    def _send_letters(self, letters: Sequence[tuple[Run, LetterCause]]) -> None:
        if not letters:
            return
        task = asyncio.get_running_loop().create_task(self._send(letters))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, letters: Sequence[tuple[Run, LetterCause]]) -> None:
        try:
            await self._write_letters(self.key, letters)
        except Exception:  # the records are given up all the same: the start offset would stay before them
            logger.exception("unexpected error while dead letters were written", **self._named())
        self._lettered += [run for run, _ in letters]
        self._archive()

    def _archive(self) -> None:
        """Note that letters are written."""
        self._persist(self._in_flight.archive([run for run in self._lettered if not run.changing]))

    def _named(self) -> dict[str, object]:
        return {"group": self.key.group_id, "topic_id": str(self.key.topic_id), "partition": self.key.partition}


def _count(change: RunsChange) -> int:
    return sum(run.count for run, _ in change.runs)


def for_member(error: KafkaError) -> KafkaError:
    """Return a member's error for one of the share coordinator (Kafka's `SharePartition.fetchPersisterError`)."""
    match error:
        case NotCoordinator() | CoordinatorNotAvailable() | CoordinatorLoadInProgress():
            return CoordinatorNotAvailable(error.message)
        case FencedLeaderEpoch() | FencedStateEpoch():
            return NotLeaderOrFollower(error.message)
        case GroupIdNotFound() | UnknownTopicOrPartition() | NotLeaderOrFollower():
            return error
        case _:
            return UnknownServerError(error.message)
