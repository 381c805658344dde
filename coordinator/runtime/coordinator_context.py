"""One internal partition's actor: mailbox, append, replay, and answers held back until they are safe.

It is the CoordinatorContext of Kafka's CoordinatorRuntime; the rules for operations are in the package's docstring.

How it works: a context is LOADING, ACTIVE, FAILED or CLOSED, and has a shard (the state machine) only while it is
ACTIVE.

- LOADING: the log is replayed into a new shard. Requests get COORDINATOR_LOAD_IN_PROGRESS. It becomes ACTIVE when the
  log's end is reached, or FAILED if the log cannot be read or has malformed records.
- ACTIVE: operations run one at a time, in the order in which they came. Each is run to its end (decide, append, replay,
  effects) before the next begins; what comes meanwhile waits in the mailbox. An answer is held back until the high
  watermark has passed everything that was written when it was decided. If the log goes offline, or an exception leaves
  the shard in doubt, the shard is thrown away, all answers that were held back fail, and it is LOADING again.
- FAILED: requests get NOT_COORDINATOR until the partition is loaded again by its runtime.
- CLOSED: this node no longer leads the partition. Requests get NOT_COORDINATOR; nothing follows.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from coordinator.runtime.coordinator_log import encode_batches, encode_end_marker, replay_log
from coordinator.runtime.coordinator_shard import CoordinatorShard, RecordRow
from coordinator.runtime.outcome import NO_PRODUCER, CoordinatorRecord, Effects, Outcome, ProducerEpoch, new_position
from coordinator.runtime.replies import DeferredReplies, Waiter, client_error, forget, forward
from coordinator.runtime.timers import Timers
from protocol.errors import (
    CoordinatorLoadInProgress,
    KafkaError,
    NotCoordinator,
    RecordBatchTooLarge,
    Timeout,
    UnknownServerError,
)
from protocol.records.compression import Compression

if TYPE_CHECKING:
    from coordinator.runtime.coordinator_log import LogPort
    from timing.clock import Clock
    from timing.wheel import TimerTask, TimingWheel

logger = structlog.get_logger(__name__)

S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")

Operation = Callable[[S], Outcome[T]]


class CoordinatorState(Enum):
    """Kafka's CoordinatorState."""

    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    CLOSED = auto()


@dataclass(frozen=True, slots=True)
class RuntimeServices(Generic[S]):
    """The services of all contexts of one runtime; `log_failed` is called for a context that must load again."""

    loop: AbstractEventLoop
    clock: Clock
    wheel: TimingWheel
    rows: Mapping[int, RecordRow]
    new_state: Callable[[CoordinatorContext[S]], S]
    log_failed: Callable[[CoordinatorContext[S]], None]
    compression: Compression = Compression.NONE
    base_sequence: int = 0
    write_timeout_ms: float | None = None
    """How long an answer may wait to be committed; None: for as long as it takes."""
    listeners: list[Callable[[], None]] = field(default_factory=list)
    """Called whenever the state of a context may have changed; see `CoordinatorRuntime.listen`."""


class CoordinatorContext(Generic[S]):
    """The actor of one internal partition. `name` is for the log lines, as `__consumer_offsets-7`."""

    def __init__(self, name: str, partition: int, log: LogPort, services: RuntimeServices[S]) -> None:
        self.name = name
        self.partition = partition
        self.status = CoordinatorState.LOADING
        self.clock = services.clock
        self.timers: Timers[S] = Timers(services.wheel, self.tell)
        self._services = services
        self._listeners = services.listeners
        self._replies = DeferredReplies(services.loop.create_future, self._begin_parking)
        self._expiry: TimerTask | None = None
        self._log = log
        self._unlisten: Callable[[], None] | None = None
        self._state: S | None = None
        self._busy = False
        self._when_loaded: list[Callable[[S], Outcome[Any] | None]] = []
        self._mailbox: deque[tuple[Operation[S, Any], Future[Any] | None]] = deque()  # None if nobody waits for it

    @property
    def state(self) -> S | None:
        """The current state machine, committed or not, for metrics; None unless it is loaded."""
        return self._state

    @property
    def is_committed(self) -> bool:
        """Whether everything written is committed, so that nothing in the state can be lost."""
        return self._replies.is_committed

    # -- messages

    def write(self, operation: Operation[S, T]) -> Future[T]:
        """The answer of `operation`; already done if there is nothing to wait for."""
        if self._busy:
            promised: Future[T] = self._replies.promise()
            self._mailbox.append((operation, promised))
            return promised
        self._busy = True
        try:
            future = self._process(operation)
            if self._mailbox:
                self._process_mail()
        finally:
            self._busy = False
        return future

    def read(self, operation: Callable[[S], T]) -> Future[T]:
        """The result of `operation`, once everything it may have seen is committed."""
        return self.write(lambda state: Outcome(reply=operation(state)))

    def tell(self, operation: Callable[[S], Outcome[Any] | None]) -> None:
        """Run a message that nobody waits for. KafkaErrors that it raises are dropped."""

        def message(state: S) -> Outcome[Any]:
            return operation(state) or _NOTHING

        if self._busy:
            self._mailbox.append((message, None))
        else:
            forget(self.write(message))

    def tell_once_loaded(self, operation: Callable[[S], Outcome[Any] | None]) -> None:
        """Do as `tell`; while the context loads, the message is kept until it has."""
        if self.status is CoordinatorState.LOADING:
            self._when_loaded.append(operation)
        else:
            self.tell(operation)

    def end_transaction(self, producer: ProducerEpoch, coordinator_epoch: int, committed: bool) -> Future[None]:
        """Append the marker that ends a producer's transaction here, and apply it."""
        if self._busy:
            raise RuntimeError("a transaction is not ended from inside an operation")
        self._busy = True
        try:
            future = self._end_transaction(producer, coordinator_epoch, committed)
            self._process_mail()
        finally:
            self._busy = False
        return future

    def waiter(self) -> Waiter[Any]:
        """A reply that a later operation will give."""
        return self._replies.waiter()

    def _begin_parking(self) -> None:
        """Look after the timeout whether the answer that was just parked still waits."""
        timeout_ms = self._services.write_timeout_ms
        if timeout_ms is not None and self._expiry is None:
            self._expiry = self._services.wheel.add(timeout_ms, partial(self._expire, self._replies.newest))

    def _expire(self, offset: int) -> None:
        """Fail the answers that have waited for the whole timeout; look at later ones after another timeout."""
        self._expiry = None
        self._replies.expire(offset, client_error(Timeout()))
        if self._replies.newest >= 0:
            self._begin_parking()

    def _process_mail(self) -> None:
        while self._mailbox:
            operation, promised = self._mailbox.popleft()
            future = self._process(operation)
            if promised is None:
                forget(future)
            else:
                forward(future, promised)

    def _process(self, operation: Operation[S, T]) -> Future[T]:
        state = self._state
        if state is None:
            return self._refused()
        try:
            outcome = operation(state)
        except KafkaError as error:
            return self._replies.answered(None, error)
        except Exception:
            logger.exception("unexpected error in a coordinator's operation", shard=self.name)
            return self._replies.answered(None, UnknownServerError())
        records, reply, effects, _, _ = outcome
        failure = self._write(state, outcome) if records else None
        if failure is None and effects is not None and not self._run_effects(effects, None):
            failure = UnknownServerError()
        if self._listeners and (records or effects is not None):
            self._changed()
        if isinstance(reply, Waiter):
            if failure is not None:
                reply.fail_now(failure)
            else:
                self._replies.keep(reply)
            return reply.future
        return self._replies.answered(reply) if failure is None else self._replies.failed(failure)

    def _changed(self) -> None:
        for changed in tuple(self._listeners):
            changed()

    def _refused(self) -> Future[Any]:
        loading = self.status is CoordinatorState.LOADING
        return self._replies.failed(CoordinatorLoadInProgress() if loading else NotCoordinator())

    # -- writing

    def _write(self, state: S, outcome: Outcome[Any]) -> KafkaError | None:
        """Append and replay the records. Returns the error of a failure, which has been handled."""
        producer = outcome.transaction
        try:
            batches = self._encode(outcome)
        except Exception:
            # A bug in the shard. Like records that are too large, it fails this operation, not the whole context.
            logger.exception("records cannot be encoded", shard=self.name)
            return self._append_failed(RecordBatchTooLarge(), outcome.effects)
        for batch, records in batches:
            replay = partial(self._replay, state, records, NO_PRODUCER if producer is None else producer)
            failure = self._append(batch, len(records), replay, outcome.effects)
            if failure is not None:
                return failure
        return None

    def _append(
        self, batch: bytearray, count: int, replay: Callable[[int], None], effects: Effects | None
    ) -> KafkaError | None:
        """Append `count` records and replay them from their first offset. Returns as `_write` does."""
        try:
            offset = self._log.append(batch)
        except KafkaError as error:
            return self._append_failed(error, effects)
        except Exception:
            logger.exception("unexpected error while records were appended", shard=self.name)
            return self._give_up(UnknownServerError())  # nobody knows whether the log has the records
        self._replies.wrote(offset + count)
        try:
            replay(offset)
        except Exception:
            logger.exception("unexpected error while records were replayed", shard=self.name)
            return self._give_up(UnknownServerError())
        return None

    def _encode(self, outcome: Outcome[Any]) -> list[tuple[bytearray, Sequence[CoordinatorRecord]]]:
        limit = None if outcome.atomic else self._log.max_batch_bytes
        around = self._services
        return encode_batches(
            outcome.records, self.clock.wall_ms(), outcome.transaction, around.compression, limit, around.base_sequence
        )

    def _replay(self, state: S, records: Sequence[CoordinatorRecord], producer: ProducerEpoch, offset: int) -> None:
        rows = self._services.rows
        for schema, key, value in records:
            rows[schema.ids[-1]].replay(state, key, value, new_position((offset, *producer)))
            offset += 1

    def _append_failed(self, error: KafkaError, effects: Effects | None) -> KafkaError:
        translated = client_error(error)
        logger.warning("append failed", shard=self.name, code=error.code.name)
        if self._state is None:
            return translated  # the log has reported its failure: waiters are answered and the state is thrown away
        if effects is not None:
            self._run_effects(effects, translated)
        return translated

    def _end_transaction(self, producer: ProducerEpoch, coordinator_epoch: int, committed: bool) -> Future[None]:
        state = self._state
        if state is None:
            return self._refused()
        marker = encode_end_marker(producer, coordinator_epoch, committed, self.clock.wall_ms())

        def replay(_offset: int) -> None:
            state.replay_end_marker(producer.producer_id, producer.producer_epoch, committed)

        failure = self._append(marker, 1, replay, None)
        self._changed()
        return self._replies.answered(None) if failure is None else self._replies.failed(failure)

    def _run_effects(self, effects: Effects, error: KafkaError | None) -> bool:
        """Run the effects. After an exception return False: soft state cannot be trusted, and a new shard is loaded."""
        try:
            effects(error)
        except Exception:
            logger.exception("unexpected error in an operation's effects", shard=self.name)
            self._give_up(UnknownServerError())
            return False
        return True

    # -- load and unload

    async def load(self) -> None:
        """Make a new state machine and replay the log into it. Raises KafkaError, ValueError for a malformed log."""
        self._state = None
        self.status = CoordinatorState.LOADING
        started = self.clock.monotonic_ms()
        state = self._services.new_state(self)
        try:
            replayed = await replay_log(self._log, self._services.rows, state, self.name, self.clock.machine)
        except BaseException:
            state.unloaded()
            raise
        self._replies.wrote(self._log.log_end_offset)
        self._unlisten = self._log.listen(self._replies.advanced, self._log_failed)
        self._replies.advanced(self._log.high_watermark)
        self._state = state
        self.status = CoordinatorState.ACTIVE
        self._busy = True  # what `loaded` tells this context is done once it has returned
        try:
            state.loaded()
            kept, self._when_loaded = self._when_loaded, []
            for operation in kept:
                self.tell(operation)
            self._process_mail()
        finally:
            self._busy = False
        self._changed()
        took = self.clock.monotonic_ms() - started
        logger.debug("coordinator loaded", shard=self.name, records=replayed, ms=round(took, 1))

    def unload(self, status: CoordinatorState = CoordinatorState.CLOSED) -> None:
        """Stop coordinating the partition, which this node no longer can or may coordinate."""
        self._drop(NotCoordinator())
        self.status = status

    def _log_failed(self, error: KafkaError) -> None:
        self._give_up(client_error(error))

    def _give_up(self, error: KafkaError) -> KafkaError:
        """Throw the state away and load again from the log."""
        if self._state is not None:
            self._drop(error)
            self.status = CoordinatorState.LOADING
            self._services.log_failed(self)
        return error

    def _drop(self, error: KafkaError) -> None:
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        self.timers.cancel_all()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        state, self._state = self._state, None
        self._replies.drop(error)
        if state is not None:
            state.unloaded()
        self._changed()


_NOTHING: Outcome[Any] = Outcome()
