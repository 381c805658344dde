"""Operations that wait for something to happen, until a timeout at the latest.

The rules are Kafka's `DelayedOperation` and `DelayedOperationPurgatory` (core, kafka.server), in one thread. Unlike
Kafka's, a completed operation leaves the watch lists at once, so there is no purge and no estimate of garbage.

How it works: an operation is added with the keys of what may complete it, such as its partitions. It is tried, watched
under all keys, and tried again: the first try itself may have caused what it waits for. Then its timeout begins, and it
is tried at each event of one of its keys (`check_and_complete`). `try_complete` looks whether the condition holds, and
then calls `force_complete`, which takes the operation off its keys and off the timing wheel, and runs `on_complete`
once. If the timeout comes first, the operation is completed all the same, and `on_expiration` follows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence

from timing.report import report_exception
from timing.wheel import TimerTask, TimingWheel


class DelayedOperation(ABC):
    """Something to complete exactly once: when its condition holds, or when its time is up.

    Subclasses say when (`try_complete`), what then (`on_complete`) and what else on expiry (`on_expiration`).
    `completed` is read-only: `force_complete` sets it.
    """

    __slots__ = ("_keys", "_purgatory", "_task", "completed")

    def __init__(self) -> None:
        self.completed = False
        self._purgatory: Purgatory | None = None
        self._keys: Sequence[Hashable] = ()
        self._task: TimerTask | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """If the condition holds now, return `force_complete()`; else False. Called any number of times."""

    @abstractmethod
    def on_complete(self) -> None:
        """Answer. Called exactly once, by `force_complete`."""

    @abstractmethod
    def on_expiration(self) -> None:
        """Account for the expiry. Called after `on_complete` when the timeout completed the operation."""

    def force_complete(self) -> bool:
        """Complete now, whatever the condition; True for the one call that did it."""
        if self.completed:
            return False
        self.completed = True
        if self._purgatory is not None:
            self._purgatory._remove(self)
        self.on_complete()
        return True

    def expire(self) -> None:
        """Complete as the timeout does; harmless once it is completed."""
        if self.force_complete():
            self.on_expiration()


class Purgatory:
    """Waiting operations of one kind, found by the keys they watch and by their timeouts.

    `name` is Kafka's `delayedOperation` tag of the metrics (Produce, Fetch, Rebalance, Heartbeat, ...). `watchers`
    holds the operations by the keys they watch; callers only read it.
    """

    def __init__(self, name: str, wheel: TimingWheel) -> None:
        self.name = name
        self._wheel = wheel
        self.watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._delayed = 0

    @property
    def watched(self) -> int:
        """The entries in the watch lists: an operation counts once per key (metric `PurgatorySize`)."""
        return sum(map(len, self.watchers.values()))

    @property
    def delayed(self) -> int:
        """The operations that wait for their timeout (metric `NumDelayedOperations`)."""
        return self._delayed

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Sequence[Hashable], timeout_ms: float) -> bool:
        """Complete `operation` now if it can be; else let it wait for its keys and its timeout.

        Returns True if this call completed it. The second try, after watching, is Kafka's; here it serves a
        `try_complete` whose side effects complete what it waits for. If `try_complete` or `on_complete` raises, the
        caller gets the exception and the operation does not wait.
        """
        return operation.try_complete() or self.watch(operation, keys, timeout_ms)

    def watch(self, operation: DelayedOperation, keys: Sequence[Hashable], timeout_ms: float) -> bool:
        """Do as `try_complete_else_watch`, without its first try: for operations that rarely are complete at once."""
        if not keys:
            raise ValueError("an operation without watch keys could only expire")
        operation._purgatory = self
        operation._keys = keys
        for key in keys:
            self.watchers.setdefault(key, {})[operation] = None
        try:
            if operation.try_complete():
                return True
        except BaseException:
            self._remove(operation)
            raise
        if not operation.completed:
            operation._task = self._wheel.add(timeout_ms, operation.expire)
            self._delayed += 1
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation that watches `key`, the longest waiting first; return the number completed by this call.

        An exception in one is reported to the loop's exception handler: the caller is not to blame, and the other
        operations are still tried.
        """
        watchers = self.watchers.get(key)
        if watchers is None:
            return 0
        completed = 0
        for operation in list(watchers):
            try:
                # Completing one may complete others.
                if not operation.completed and operation.try_complete():
                    completed += 1
            except Exception as exception:  # noqa: BLE001 - reported; the other operations must be tried
                self._report(exception)
        return completed

    def complete_all(self) -> None:
        """Complete everything that waits, whatever its condition: for a node that stops.

        Exceptions are reported as by `check_and_complete`: none may keep other operations, or the stop, from finishing.
        """
        for watchers in list(self.watchers.values()):
            for operation in list(watchers):
                try:
                    operation.force_complete()
                except Exception as exception:  # noqa: BLE001 - reported; the other operations must be completed
                    self._report(exception)

    def _report(self, exception: Exception) -> None:
        report_exception(f"Exception in a delayed operation ({self.name})", exception)

    def _remove(self, operation: DelayedOperation) -> None:
        """Forget an operation: one dictionary deletion for each of its keys."""
        if operation._task is not None:
            operation._task.cancel()
            operation._task = None
            self._delayed -= 1
        for key in operation._keys:
            watchers = self.watchers.get(key)
            if watchers is not None:
                watchers.pop(operation, None)
                if not watchers:
                    del self.watchers[key]
        operation._keys = ()
