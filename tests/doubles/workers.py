"""Workers without threads: what is submitted runs when the test says so, or on the loop.

All of them refuse work that is given a dictionary, list or set that also belongs to an object: in a thread, the loop
could change it meanwhile (storage/workers.py has the rule).
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, CodeType, FrameType, FunctionType, GeneratorType, MethodType
from typing import Any, Self, TypeVar

from timing.clock import Clock

T = TypeVar("T")

CHANGEABLE = (dict, list, set, deque, bytearray)
_looked_at: set[CodeType] = set()


def require_own_values(work: Callable[[], object]) -> None:
    """Raises AssertionError if `work` is given a container that is an object's attribute.

    Each function is looked at once: it takes milliseconds.
    """
    function: Any = work
    given: list[Any] = []
    while isinstance(function, partial):
        given += [*function.args, *function.keywords.values()]
        function = function.func
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType) or function.__code__ in _looked_at:
        return
    given += [cell.cell_contents for cell in function.__closure__ or () if cell.cell_contents is not function]
    shared = [value for value in given if isinstance(value, CHANGEABLE) and any(_owners(value))]
    assert not shared, f"{function.__qualname__} is given what the loop may change: {[type(value) for value in shared]}"
    _looked_at.add(function.__code__)


def _owners(value: Any) -> Iterator[object]:
    """The objects that have the container as an attribute."""
    for referrer in gc.get_referrers(value):
        if isinstance(referrer, dict):
            yield from (owner for owner in gc.get_referrers(referrer) if getattr(owner, "__dict__", None) is referrer)
        elif not isinstance(referrer, list | tuple | CellType | FrameType | GeneratorType | partial):
            yield referrer


class QueuedWorkers:
    """Without threads: submitted work waits until `run_all`; `call` runs at once.

    Work on the metadata log does not wait for the test: no node starts without it.
    """

    def __init__(self) -> None:
        self._queue: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        require_own_values(work)
        self._queue.append(partial(_run, work, done, failed))

    async def call(self, work: Callable[[], T]) -> T:
        require_own_values(work)
        return work()

    def lane(self, name: str) -> Any:
        return LoopWorkers() if name == "metadata" else self

    @property
    def is_busy(self) -> bool:
        return bool(self._queue)

    @property
    def waiting(self) -> int:
        """How much is queued."""
        return len(self._queue)

    def run_all(self) -> None:
        """Run everything queued, and what that queues."""
        while self._queue:
            self.run_next()

    def run_next(self) -> None:
        """Run what has been queued for longest."""
        self._queue.pop(0)()

    def drop_all(self) -> None:
        """Forget what is queued, as a crash does."""
        self._queue.clear()


class LoopWorkers:
    """In virtual time: work runs on the loop itself, at its next turn."""

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        require_own_values(work)
        asyncio.get_running_loop().call_soon(_run, work, done, failed)

    async def call(self, work: Callable[[], T]) -> T:
        require_own_values(work)
        await asyncio.sleep(0)
        return work()

    def lane(self, _name: str) -> Self:
        return self

    @property
    def is_busy(self) -> bool:
        return False


class SlowWorkers:
    """In virtual time: work takes some, one piece after the other in each lane. A node that is dead does no more of it.

    `clock` is the node's; `how_long` gives the milliseconds of a piece of work in the lane of that name.
    """

    def __init__(self, clock: Clock, how_long: Callable[[str], float]) -> None:
        self._clock = clock
        self._how_long = how_long
        self._free_ms: dict[str, float] = {}

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        _Lane(self, "").submit(work, done, failed)

    async def call(self, work: Callable[[], T]) -> T:
        return await _Lane(self, "").call(work)

    def lane(self, name: str) -> _Lane:
        return _Lane(self, name)

    @property
    def is_busy(self) -> bool:
        return False

    def enqueue(self, name: str, step: Callable[[], None]) -> None:
        now_ms = self._clock.monotonic_ms()
        done_ms = max(now_ms, self._free_ms.get(name, now_ms)) + self._how_long(name)
        self._free_ms[name] = done_ms
        self._clock.call_later(done_ms - now_ms, step)


class LaneWorkers:
    """Without threads: submitted work waits in its lane until the test runs it.

    Attributes:
        held: lanes whose names start so do nothing when any may.
        at_once: what is called, rather than submitted, does not wait.
    """

    def __init__(self) -> None:
        self._queues: dict[str, list[Callable[[], None]]] = {}
        self.held: tuple[str, ...] = ()
        self.at_once = False

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        _Lane(self, "").submit(work, done, failed)

    async def call(self, work: Callable[[], T]) -> T:
        return await _Lane(self, "").call(work)

    def lane(self, name: str) -> _Lane:
        return _Lane(self, name)

    @property
    def is_busy(self) -> bool:
        return any(self._queues.values())

    def enqueue(self, name: str, step: Callable[[], None]) -> None:
        self._queues.setdefault(name, []).append(step)

    def run_any(self, rng: random.Random) -> bool:
        """Run the oldest work of some lane; false if there is none in those that are not held."""
        lanes = [name for name, queue in self._queues.items() if queue and not (name and name.startswith(self.held))]
        if not lanes:
            return False
        self._queues[rng.choice(lanes)].pop(0)()
        return True


class _Lane:
    def __init__(self, workers: LaneWorkers | SlowWorkers, name: str) -> None:
        self._workers = workers
        self._name = name

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
        require_own_values(work)
        self._workers.enqueue(self._name, partial(_run, work, done, failed))

    async def call(self, work: Callable[[], T]) -> T:
        require_own_values(work)
        if isinstance(self._workers, LaneWorkers) and self._workers.at_once:
            return work()
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def unless_cancelled(settle: Callable[[Any], None]) -> Callable[[Any], None]:
            return lambda value: None if result.done() else settle(value)

        self.submit(work, unless_cancelled(result.set_result), unless_cancelled(result.set_exception))
        return await result

    def lane(self, name: str) -> _Lane:
        return self._workers.lane(f"{self._name} {name}")

    @property
    def is_busy(self) -> bool:
        return self._workers.is_busy


def _run(work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], object]) -> None:
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - handed on, as the thread pool does
        failed(error)
    else:
        done(result)


class HeldLane(LoopWorkers):
    """As `LoopWorkers`, but what is called in one lane waits until the test runs it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._held = LaneWorkers()

    def lane(self, name: str) -> Any:
        return self._held.lane(name) if name == self._name else self

    def run_next(self) -> None:
        """Run what has been waiting for longest."""
        assert self._held.run_any(random.Random(0)), "nothing is waiting"

    def run_all(self) -> None:
        """Run all that is waiting."""
        while self.is_held:
            self.run_next()

    @property
    def is_held(self) -> bool:
        """Whether something is waiting."""
        return self._held.is_busy
