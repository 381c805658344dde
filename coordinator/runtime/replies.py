"""The answers of a coordinator: held back until what they depend on is committed, or given by a later operation.

How it works: an answer is decided when the log ends at some offset, `_written`. Whatever the decision saw lies before
that offset, so the answer is parked with it, and given once the high watermark has reached it (the DeferredEventQueue
of Kafka's CoordinatorRuntime). Offsets of parked answers only grow, so a queue keeps them in order. With nothing parked
and everything committed, an answer is given at once. A waiter's answer is decided by a later operation, and is parked
at the offset of that moment. When the shard is given up (`drop`), answers that were decided fail with one error, and
those that were not with NOT_COORDINATOR. What is parked for too long, since too few replicas are in sync, fails too
(`expire`): what was written stays, and may be committed later, so the client asks again.
"""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from protocol.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorage,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordBatchTooLarge,
    Timeout,
    UnknownServerError,
    UnknownTopicOrPartition,
)

T = TypeVar("T")

Deliver = Callable[["Future[Any]", Any, "KafkaError | None"], None]


class Waiter(Generic[T]):
    """Made by `CoordinatorContext.waiter()` and returned as an outcome's reply; answered once, by any operation.

    The answer is held back until everything written by then is committed. Answering again is harmless: only the first
    answer counts, even against that of the context, which fails its waiters when it unloads.
    """

    __slots__ = ("_deliver", "answered", "future")

    def __init__(self, future: Future[T], deliver: Deliver) -> None:
        self.future = future
        self.answered = False
        self._deliver = deliver

    def answer(self, value: T) -> None:
        if not self.answered:
            self.answered = True
            self._deliver(self.future, value, None)

    def fail(self, error: KafkaError) -> None:
        if not self.answered:
            self.answered = True
            self._deliver(self.future, None, error)

    def fail_now(self, error: KafkaError) -> None:
        """Fail at once, for the context: the operation that made the waiter failed, so there is nothing to wait for."""
        self.answered = True
        if not self.future.done():
            self.future.set_exception(error)


class DeferredReplies:
    """The answers that a CoordinatorContext has still to give. `create_future` is the loop's.

    `parked` is called when an answer is parked while no other is. Offsets are those of the internal partition's log,
    which reports how far it is written and how far it is committed.
    """

    __slots__ = ("_begin_parking", "_committed", "_create_future", "_parked", "_waiting", "_written")

    def __init__(self, create_future: Callable[[], Future[Any]], parked: Callable[[], None] = lambda: None) -> None:
        self._create_future = create_future
        self._begin_parking = parked
        self._written = 0  # the log's end after the last append
        self._committed = 0  # the high watermark
        self._parked: deque[tuple[int, Future[Any], Any, KafkaError | None]] = deque()
        self._waiting: set[Future[Any]] = set()

    @property
    def is_committed(self) -> bool:
        """Whether everything written is committed, and everything decided is answered."""
        return not self._parked and self._committed >= self._written

    # -- the log

    def wrote(self, log_end_offset: int) -> None:
        """Note that the log now ends here: answers from now on wait until that is committed."""
        self._written = log_end_offset

    def advanced(self, high_watermark: int) -> None:
        """Give the answers that waited for this: the log is committed up to here."""
        self._committed = high_watermark
        parked = self._parked
        while parked and parked[0][0] <= high_watermark:
            _, future, value, error = parked.popleft()
            resolve(future, value, error)

    @property
    def newest(self) -> int:
        """The offset that the newest parked answer waits for; -1 if none is parked."""
        return self._parked[-1][0] if self._parked else -1

    def expire(self, offset: int, error: KafkaError) -> None:
        """Fail what waits for this offset, or a smaller one."""
        parked = self._parked
        while parked and parked[0][0] <= offset:
            resolve(parked.popleft()[1], None, error)

    # -- answers

    def promise(self) -> Future[Any]:
        """An answer that is not decided yet."""
        return self._create_future()

    def answered(self, value: Any, error: KafkaError | None = None) -> Future[Any]:
        """An answer that is decided."""
        future = self._create_future()
        if self._parked or self._committed < self._written:  # `is_committed`, for every request
            self._park(future, value, error)
        elif error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
        return future

    def failed(self, error: KafkaError) -> Future[Any]:
        """An error that does not depend on anything written."""
        future = self._create_future()
        future.set_exception(error)
        return future

    def waiter(self) -> Waiter[Any]:
        """An answer that a later operation decides."""
        return Waiter(self._create_future(), self._deliver)

    def keep(self, waiter: Waiter[Any]) -> None:
        """Fail the waiter's answer on `drop`, unless it has been given."""
        if not waiter.answered:
            self._waiting.add(waiter.future)

    def drop(self, error: KafkaError) -> None:
        """Fail what was decided with this error, and what was not with NOT_COORDINATOR."""
        parked, self._parked = self._parked, deque()
        waiting, self._waiting = self._waiting, set()
        for _, future, _, _ in parked:
            resolve(future, None, error)
        for future in waiting:
            resolve(future, None, NotCoordinator())

    def _deliver(self, future: Future[Any], value: Any, error: KafkaError | None) -> None:
        self._waiting.discard(future)
        if self.is_committed:
            resolve(future, value, error)
        else:
            self._park(future, value, error)

    def _park(self, future: Future[Any], value: Any, error: KafkaError | None) -> None:
        is_first = not self._parked
        self._parked.append((self._written, future, value, error))
        if is_first:
            self._begin_parking()


# -- futures that several parties may complete: the first one counts


def resolve(future: Future[Any], value: Any, error: KafkaError | None) -> None:
    """Set the value, or the error if there is one. A future that is done (its waiter gave up) stays as it is."""
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def forward(source: Future[Any], target: Future[Any]) -> None:
    """Copy one future's outcome to another, now or when there is one."""

    def pass_on(done: Future[Any]) -> None:
        if done.cancelled():
            target.cancel()
            return
        error = done.exception()
        resolve(target, None if error else done.result(), error)  # type: ignore[arg-type]  # only KafkaErrors are set

    if source.done():
        pass_on(source)
    else:
        source.add_done_callback(pass_on)


def forget(future: Future[Any]) -> None:
    """Stop asyncio from reporting the future's exception as never retrieved: nobody waits for it."""
    if future.done():
        _seen(future)
    else:
        future.add_done_callback(_seen)


def _seen(future: Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


# -- errors

_MEANING: tuple[tuple[tuple[type[KafkaError], ...], type[KafkaError]], ...] = (
    ((UnknownTopicOrPartition, NotEnoughReplicas, NotEnoughReplicasAfterAppend, Timeout), CoordinatorNotAvailable),
    ((NotLeaderOrFollower, KafkaStorage), NotCoordinator),
    ((MessageTooLarge, RecordBatchTooLarge), UnknownServerError),
)


def client_error(error: KafkaError) -> KafkaError:
    """The error that a client gets for a failed append (Kafka's CoordinatorOperationExceptionHelper)."""
    for errors, meaning in _MEANING:
        if isinstance(error, errors):
            return meaning()
    return error
