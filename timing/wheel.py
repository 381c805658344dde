"""A hierarchical timing wheel: timers by the million, O(1) to add and to cancel, over one timer of the clock.

The rules are those of Kafka's `TimingWheel` and `SystemTimer` (server-common, util/timer), in one thread. Level 0 has
`wheel_size` buckets of one tick each; a bucket of the next level spans the whole wheel below it, and levels are made
when first needed. A bucket is a doubly linked list of its tasks, and a heap of the filled buckets' start times shows
which is due next. When a bucket of a coarse level is due, its tasks move to finer levels; those whose tick has come
run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

from timing.clock import Clock, Timer
from timing.report import report_exception

_NOT_QUEUED = -1


class TimerTask:
    """A callback waiting in a `TimingWheel`."""

    __slots__ = ("_callback", "_next", "_previous", "_wheel", "expiration")

    def __init__(self, wheel: TimingWheel, callback: Callable[[], None], expiration: int) -> None:
        self._wheel = wheel
        self._callback = callback
        self.expiration = expiration
        """The tick, counted from the clock's origin, at whose beginning the callback runs."""
        self._next: TimerTask = None  # type: ignore[assignment]  # set exactly while in a bucket
        self._previous: TimerTask = None  # type: ignore[assignment]

    def cancel(self) -> None:
        """Take the task out of the wheel. Harmless if it ran or was cancelled already."""
        if self._next is not None:
            self._unlink()
            self._wheel._size -= 1
            self._callback = _never  # which may know the task: no circle is left for a garbage collection

    def _unlink(self) -> None:
        self._next._previous = self._previous
        self._previous._next = self._next
        self._next = self._previous = None  # type: ignore[assignment]  # no chain of dead tasks stays alive


class _Bucket(TimerTask):
    """The root of a circular list of tasks; `expiration` is its start tick while it is in the heap."""

    __slots__ = ()

    def __init__(self, wheel: TimingWheel) -> None:
        super().__init__(wheel, _never, _NOT_QUEUED)
        self._next = self._previous = self

    def append(self, task: TimerTask) -> None:
        last = self._previous
        task._next = self
        task._previous = last
        last._next = task
        self._previous = task


def _never() -> None:
    raise AssertionError("nothing waits for this task: it ran, was cancelled, or is the root of a bucket")


class TimingWheel:
    """Runs callbacks after a delay: never early, and due within one tick after the deadline.

    Callbacks run on the loop, in order of their ticks. An `Exception` in one goes to the loop's exception handler, and
    the others still run. `len()` is the number of waiting tasks.
    """

    def __init__(self, clock: Clock, tick_ms: int = 1, wheel_size: int = 20) -> None:
        if tick_ms < 1 or wheel_size < 2:
            raise ValueError(f"tick_ms {tick_ms} must be at least 1 and wheel_size {wheel_size} at least 2")
        self._clock = clock
        self._tick_ms = tick_ms
        self._wheel_size = wheel_size
        self._levels: list[list[_Bucket]] = []
        # (start tick, minus the bucket's length in ticks, bucket): of equal starts the coarse one comes first, because
        # its tasks are older. The first two are unique, so buckets are never compared.
        self._due: list[tuple[int, int, _Bucket]] = []
        self._current = math.floor(clock.monotonic_ms() / tick_ms)
        self._size = 0
        self._timer: Timer | None = None
        self._armed_for = 0
        self._expiring = False

    def __len__(self) -> int:
        return self._size

    def now_ms(self) -> float:
        """The monotonic reading of its clock."""
        return self._clock.monotonic_ms()

    def add(self, delay_ms: float, callback: Callable[[], None]) -> TimerTask:
        """Run `callback` once `delay_ms` have passed (on a later turn of the loop even when zero or negative)."""
        now_ms = self._clock.monotonic_ms()
        now = math.floor(now_ms / self._tick_ms)
        due = self._due
        # Following the clock keeps levels few. It must not pass a bucket that is due (or that is being emptied, which
        # is still in the heap): the bucket's place in the circle would be taken for a later time.
        if now > self._current and (not due or due[0][0] > now):
            self._current = now
        expiration = math.ceil((now_ms + delay_ms) / self._tick_ms)
        task = TimerTask(self, callback, max(expiration, self._current + 1))
        self._insert(task)
        self._size += 1
        if not self._expiring and (self._timer is None or due[0][0] < self._armed_for):
            self._arm(now_ms)
        return task

    def _insert(self, task: TimerTask) -> None:
        """Put a task, whose tick is after the current one, in the bucket of the finest level that reaches so far."""
        size = self._wheel_size
        level, unit = 0, 1
        while (slot := task.expiration // unit) - self._current // unit >= size:
            level += 1
            unit *= size
        while level >= len(self._levels):
            self._levels.append([_Bucket(self) for _ in range(size)])
        bucket = self._levels[level][slot % size]
        bucket.append(task)
        if bucket.expiration == _NOT_QUEUED:
            bucket.expiration = slot * unit
            heappush(self._due, (bucket.expiration, -unit, bucket))

    def _arm(self, now_ms: float) -> None:
        """Set the one timer to the next bucket that has tasks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._due
        while due and due[0][2]._next is due[0][2]:
            heappop(due)[2].expiration = _NOT_QUEUED
        if due:
            self._armed_for = due[0][0]
            self._timer = self._clock.call_later(self._armed_for * self._tick_ms - now_ms, self._expire)

    def _expire(self) -> None:
        """Empty all buckets that are due by now."""
        self._timer = None
        self._expiring = True
        due = self._due
        try:
            now = math.floor(self._clock.monotonic_ms() / self._tick_ms)
            while due and due[0][0] <= now:
                start, _, bucket = due[0]
                self._current = start
                self._flush(bucket)
                heappop(due)
                bucket.expiration = _NOT_QUEUED
        finally:
            self._expiring = False
            self._arm(self._clock.monotonic_ms())

    def _flush(self, bucket: _Bucket) -> None:
        while (task := bucket._next) is not bucket:
            task._unlink()
            if task.expiration > self._current:
                self._insert(task)
                continue
            self._size -= 1
            callback, task._callback = task._callback, _never
            try:
                callback()
            except Exception as exception:  # noqa: BLE001 - reported; the other tasks must run
                report_exception("Exception in a timer's callback", exception)
