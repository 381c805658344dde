"""Plays a schedule on a broker or a cluster while a test goes on, and says what was played when the test fails.

with odradek.chaos(seed=7, minutes=2, of=["lost_replies", "clock_jumps"]) as chaos:
    ...

A thread does each event at its time. What cannot be done then, since there is no group, say, is noted and left out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from odradek.chaos.schedule import Event, Value, shrink, text_of
from odradek.clock import Clock
from odradek.control import ControlError, WaitTimeoutError
from odradek.faults import Fault, Phase
from odradek.groups import Group
from odradek.topic import Topic

Undo = Callable[[], object]
Mark = dict[str, list[str]]
T = TypeVar("T")

SHRINKS = 40
"""How often a test is run again to find the shortest schedule that fails."""


class Target(Protocol):
    """What is played on: a broker or a cluster in a test's hands."""

    @property
    def clock(self) -> Clock: ...

    def fault(
        self,
        api: str | int | None = None,
        *,
        error: str | int | None = None,
        delay: float | None = None,
        disconnect: bool | None = None,
        phase: Phase | None = None,
        count: int | None = None,
    ) -> Fault: ...

    def stall(self) -> Fault: ...

    def disconnect(self) -> int: ...

    def groups(self) -> dict[str, Group]: ...

    def topics(self) -> dict[str, Topic]: ...

    def mark(self) -> Mark: ...

    def reset(self, mark: Mark | None = None) -> object: ...


class NotPossibleError(Exception):
    """An event cannot be done now; the text says why."""


class Chaos:
    """A schedule and its play. As a context manager it plays until the end of the `with` block.

    Attributes:
        target: the broker or cluster.
        events: what happens, in order.
        seed: of a schedule that was drawn; None for one that was given.
        played: each event that was played, and what became of it.
    """

    def __init__(self, target: Target, events: Sequence[Event], seed: int | None = None) -> None:
        self.target = target
        self.events = list(events)
        self.seed = seed
        self.played: list[tuple[Event, str]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._faults: list[Fault] = []
        self._error: BaseException | None = None

    def __str__(self) -> str:
        """The schedule, as `chaos(schedule=...)` takes it."""
        return text_of(self.events)

    def described(self) -> str:
        """What was played, for somebody to read and to play again."""
        drawn = "a given schedule" if self.seed is None else f"the seed {self.seed}"
        done = {id(event): outcome for event, outcome in self.played}
        lines = [_line(event, done.get(id(event), "not played")) for event in self.events]
        return "\n".join([f"chaos of {drawn}; play it again with odradek.chaos(schedule='''", *lines, "''')"])

    # -- as a context manager

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("this schedule was played already: chaos(schedule=str(chaos)) is a new one")
        self._thread = threading.Thread(target=self._run, name="odradek-chaos", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()
        for fault in self._faults:
            _quietly(fault.remove)
        if error is not None and isinstance(error, Exception):
            error.add_note(self.described())
        elif self._error is not None:
            raise self._error

    @property
    def is_over(self) -> bool:
        """Whether all events were played."""
        return len(self.played) == len(self.events)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all events were played, and what lasts has ended. Raises WaitTimeoutError after `timeout` s."""
        if self._thread is None:
            raise RuntimeError("the schedule is not played: with odradek.chaos(...) as chaos: ...")
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise WaitTimeoutError(f"after {timeout:g} s {len(self.played)} of {len(self.events)} events were played")

    # -- the thread

    def _run(self) -> None:
        undoing: list[tuple[float, Undo]] = []
        try:
            try:
                self._play(undoing)
            finally:
                for _, undo in undoing:
                    _quietly(undo)
        except BaseException as error:  # noqa: BLE001 - it is raised where the test is
            self._error = error

    def _play(self, undoing: list[tuple[float, Undo]]) -> None:
        """Do each event at its time, and end what lasts; `undoing` has what was not ended yet."""
        began = time.monotonic()
        for event in self.events:
            if self._undo_until(began + event.at, undoing):
                return
            outcome, undo = self._do(event)
            self.played.append((event, outcome))
            if undo is not None:
                # By the schedule, not by now: what follows what stays the same on a machine that is late.
                undoing.append((began + event.at + float(event.values.get("lasts", 0)), undo))
        if undoing:
            self._undo_until(max(until for until, _ in undoing), undoing)

    def fault(self, api: Value, **values: Any) -> Fault:
        """Set a fault of the target that is removed at the end of the play, if not before."""
        fault = self.target.fault(str(api), **values)
        self._faults.append(fault)
        return fault

    def _undo_until(self, until: float, undoing: list[tuple[float, Undo]]) -> bool:
        """Wait until that time, and end what ends before; True if the play is to stop."""
        while due := sorted((each for each in undoing if each[0] <= until), key=lambda each: each[0]):
            if self._stop.wait(max(0.0, due[0][0] - time.monotonic())):
                return True
            undoing.remove(due[0])
            _quietly(due[0][1])
        return self._stop.wait(max(0.0, until - time.monotonic()))

    def _do(self, event: Event) -> tuple[str, Undo | None]:
        try:
            return "", ACTS[event.kind](self, event.values)
        except (NotPossibleError, ControlError, WaitTimeoutError) as error:
            return f"not done: {error}", None

    # -- shrinking

    def check(self, run: Callable[[], object], *, attempts: int = SHRINKS) -> None:
        """Play the schedule while `run` runs; if that fails, raise what the shortest schedule that still fails raises.

        `run` makes all that it needs: before each run, what came since is deleted. It is run at most `attempts` times
        more. The error has the schedule in its notes.
        """
        mark = self.target.mark()
        last = _failure(self, run)
        if last is None:
            return
        shortest, runs = last, 0

        def fails(events: list[Event]) -> bool:
            nonlocal shortest, runs
            runs += 1
            self.target.reset(mark)
            found = _failure(Chaos(self.target, events), run)
            if found is not None and type(found) is type(last):
                shortest = found
                return True
            return False

        events = shrink(self.events, fails, attempts)
        shortest.add_note(f"chaos: {len(self.events)} events were shrunk to {len(events)}, in {runs} runs")
        raise shortest


def _failure(chaos: Chaos, run: Callable[[], object]) -> Exception | None:
    try:
        with chaos:
            run()
    except Exception as error:  # noqa: BLE001 - whatever the test raises
        return error
    return None


def _line(event: Event, outcome: str) -> str:
    return f"{event}  # {outcome}" if outcome else str(event)


def _quietly(undo: Undo) -> None:
    try:
        undo()
    except ControlError:
        return  # the broker is gone, and what was set with it


# -- what is done

Values = Mapping[str, Value]


def _picked(items: Sequence[T], values: Values, what: str) -> T:
    if not items:
        raise NotPossibleError(f"there are no {what}")
    return items[min(int(float(values.get("pick", 0)) * len(items)), len(items) - 1)]


def _move_leader(chaos: Chaos, values: Values) -> Undo | None:
    cluster: Any = chaos.target
    if not hasattr(cluster, "move_leader"):
        for api in ("Produce", "Fetch"):
            chaos.fault(api, error="NOT_LEADER_OR_FOLLOWER", count=int(values.get("count", 1)))
        return None
    topics = sorted(cluster.topics().values())
    topic = _picked(topics, values, "topics")
    partition = _picked(range(topic.partitions), values, "partitions")
    leader = cluster.leader(topic, partition)
    others = [broker for broker in cluster.in_sync(topic, partition) if broker != leader]
    cluster.move_leader(topic, partition, _picked(others, values, f"other replicas of {topic}-{partition} in sync"))
    return None


def _move_coordinator(chaos: Chaos, values: Values) -> Undo | None:
    for api in ("OffsetCommit", "TxnOffsetCommit", "AddPartitionsToTxn", "EndTxn"):
        chaos.fault(api, error="NOT_COORDINATOR", count=int(values.get("count", 1)))
    return None


def _lose_reply(chaos: Chaos, values: Values) -> Undo | None:
    chaos.fault(values["api"], phase="before_reply", disconnect=True, count=int(values.get("count", 1)))
    return None


def _lose_request(chaos: Chaos, values: Values) -> Undo | None:
    chaos.fault(values["api"], disconnect=True, count=int(values.get("count", 1)))
    return None


def _slow_disk(chaos: Chaos, values: Values) -> Undo | None:
    return chaos.fault("Produce", delay=float(values["delay"]), phase="after_append").remove


def _expire_session(chaos: Chaos, values: Values) -> Undo | None:
    members = [(group, member) for group in _groups(chaos.target) for member in group.members]
    group, member = _picked(members, values, "members of groups")
    group.expire(member)
    return None


def _rebalance(chaos: Chaos, values: Values) -> Undo | None:
    _picked([group for group in _groups(chaos.target) if group.members], values, "groups with members").rebalance()
    return None


def _groups(target: Target) -> list[Group]:
    return sorted(target.groups().values())


def _jump(chaos: Chaos, values: Values) -> Undo | None:
    chaos.target.clock.advance(seconds=float(values["seconds"]))
    return None


def _disconnect(chaos: Chaos, values: Values) -> Undo | None:
    chaos.target.disconnect()
    return None


def _stall(chaos: Chaos, values: Values) -> Undo | None:
    return chaos.target.stall().remove


def _crash(chaos: Chaos, values: Values) -> Undo | None:
    brokers: Any = getattr(chaos.target, "brokers", [chaos.target])
    broker = _picked([one for one in brokers if getattr(one, "running", False)], values, "brokers that run")
    if not hasattr(broker, "kill"):
        raise NotPossibleError("a broker that runs elsewhere cannot be started again")
    broker.kill()
    restart: Undo = broker.start
    return restart


ACTS: dict[str, Callable[[Chaos, Values], Undo | None]] = {
    "leader_moves": _move_leader,
    "coordinator_moves": _move_coordinator,
    "lost_replies": _lose_reply,
    "lost_requests": _lose_request,
    "slow_disks": _slow_disk,
    "expired_sessions": _expire_session,
    "rebalances": _rebalance,
    "clock_jumps": _jump,
    "disconnects": _disconnect,
    "stalls": _stall,
    "crashes": _crash,
}
