"""A disk that takes its time, in virtual time: worker threads stand still in the middle of an operation.

The threads are real, but only one of them, or the loop, runs at a time: the loop hands over and waits until the thread
is done or stands still, in a slow operation or for a lock that such a one holds. What the loop itself does to the disk
cannot stand still; it is noted as a stall.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem

T = TypeVar("T")

SYNCS = ("fdatasync", "fsync_dir")
LOCKED_SECONDS = 0.5
"""Who is not done by then waits for a lock."""


class _Thread(threading.Thread):
    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.go_on = threading.Semaphore(0)
        self.turn_is_over = threading.Semaphore(0)

    def run(self) -> None:
        self.work()
        self.turn_is_over.release()


class SlowDisk:
    """The hook of a file system that makes operations slow.

    Attributes:
        stalls: syncs, and operations that are slow, for which the loop would have stood still.
    """

    def __init__(self, fs: MemoryFileSystem, clock: ManualClock) -> None:
        self._clock = clock
        self._slow: list[tuple[str, str, float | None]] = []
        self._standing: list[tuple[str, _Thread]] = []
        self._locked: list[_Thread] = []
        self.stalls: list[str] = []
        fs.hook = self._enter

    def slow(self, operation: str, path_part: str = "", ms: float | None = None) -> None:
        """Have such operations take so long from now on; None: until `release`."""
        self._slow.append((operation, path_part, ms))

    def release(self) -> None:
        """Nothing is slow any more, and what hangs goes on."""
        self._slow.clear()
        while self._standing:
            self._go_on(self._standing[0][1])

    @property
    def hanging(self) -> list[str]:
        """The operations that stand still now."""
        return [what for what, _ in self._standing]

    def _enter(self, operation: str, path: str) -> None:
        slow = [ms for name, part, ms in self._slow if name == operation and part in path]
        thread = threading.current_thread()
        if not isinstance(thread, _Thread):
            if slow or operation in SYNCS:
                self.stalls.append(f"{operation} {path}")
            return
        if not slow:
            return
        self._standing.append((f"{operation} {path}", thread))
        if slow[0] is not None:
            self._clock.call_later(slow[0], lambda: self._go_on(thread))
        thread.turn_is_over.release()
        thread.go_on.acquire()

    # -- turns; on the loop

    def run(self, work: Callable[[], None]) -> None:
        """Run work in a thread until it is done or stands still."""
        thread = _Thread(work)
        thread.start()
        self._wait(thread)

    def _go_on(self, thread: _Thread) -> None:
        standing = [one for one in self._standing if one[1] is thread]
        if standing:
            self._standing.remove(standing[0])
            thread.go_on.release()
            self._wait(thread)
            for locked in tuple(self._locked):
                self._locked.remove(locked)
                self._wait(locked)

    def _wait(self, thread: _Thread) -> None:
        if not thread.turn_is_over.acquire(timeout=LOCKED_SECONDS):
            self._locked.append(thread)


class SlowWorkers:
    """`Workers` with as many threads a lane as the real ones have, over a `SlowDisk`."""

    def __init__(self, disk: SlowDisk, threads: int = 4) -> None:
        self._disk = disk
        self._idle = self._threads = threads
        self._queue: deque[Callable[[], None]] = deque()
        self._lanes: dict[str, SlowWorkers] = {}

    def lane(self, name: str) -> SlowWorkers:
        if name not in self._lanes:
            self._lanes[name] = SlowWorkers(self._disk, self._threads)
        return self._lanes[name]

    @property
    def is_busy(self) -> bool:
        return self._idle < self._threads or any(lane.is_busy for lane in self._lanes.values())

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        loop = asyncio.get_running_loop()

        def run() -> None:
            callback: Callable[[Any], object]
            result: Any
            try:
                callback, result = done, work()
            except Exception as error:  # noqa: BLE001 - handed on, as the thread pool does
                callback, result = failed, error
            loop.call_soon(self._ended, callback, result)  # the loop waits for this thread

        self._queue.append(run)
        self._start()

    def _start(self) -> None:
        while self._idle and self._queue:
            self._idle -= 1
            self._disk.run(self._queue.popleft())

    def _ended(self, callback: Callable[[Any], object], result: Any) -> None:
        self._idle += 1
        self._start()
        callback(result)

    async def call(self, work: Callable[[], T]) -> T:
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: T) -> None:
            if not ended.done():
                ended.set_result(result)

        def failed(error: Exception) -> None:
            if not ended.done():
                ended.set_exception(error)

        self.submit(work, done, failed)
        return await ended
