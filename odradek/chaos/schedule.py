"""What happens to a broker and when: drawn by a seed, written as text, read again, shrunk. Pure functions.

A schedule depends on nothing but its seed, its length and its kinds: what an event hits (which group, which partition)
is drawn as a share of those that there are, `pick=0.37`, and chosen when it happens. A line of its text is an event:

3.2 lost_replies api=Produce
7.9 clock_jumps seconds=30
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Value = str | int | float

REQUESTS = (
    ("Produce", 4),
    ("Fetch", 2),
    ("OffsetCommit", 3),
    ("TxnOffsetCommit", 2),
    ("AddOffsetsToTxn", 1),
    ("EndTxn", 3),
    ("JoinGroup", 1),
    ("SyncGroup", 1),
    ("Heartbeat", 1),
    ("ConsumerGroupHeartbeat", 1),
    ("ShareAcknowledge", 2),
    ("Metadata", 1),
)
"""Whose replies and requests are lost, with how often: what is written is of more interest than what is asked."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens `at` so many seconds after the start."""

    at: float
    kind: str
    values: dict[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        named = [f"{name}={value if isinstance(value, str) else repr(value)}" for name, value in self.values.items()]
        return " ".join([f"{self.at:g}", self.kind, *named])


Draw = Callable[[random.Random], dict[str, Value]]


def _request(chance: random.Random) -> dict[str, Value]:
    names, weights = zip(*REQUESTS, strict=True)
    return {"api": chance.choices(names, weights)[0], "count": chance.choice((1, 1, 1, 2, 3))}


def _picked(chance: random.Random) -> dict[str, Value]:
    return {"pick": round(chance.random(), 2)}


KINDS: dict[str, tuple[str, Draw]] = {
    "leader_moves": (
        "a partition's leader moves to another replica in sync; a broker alone says so to some requests",
        lambda chance: {**_picked(chance), "count": chance.randint(1, 3)},
    ),
    "coordinator_moves": (
        "some requests of groups and transactions are answered NOT_COORDINATOR",
        lambda chance: {"count": chance.randint(1, 3)},
    ),
    "lost_replies": ("a request is done, and its reply is lost with the connection", _request),
    "lost_requests": ("a request is lost with the connection", _request),
    "slow_disks": (
        "what is written takes longer",
        lambda chance: {"delay": round(chance.uniform(0.1, 2), 1), "lasts": round(chance.uniform(1, 5), 1)},
    ),
    "expired_sessions": ("the session of a group's member ends, as if it had been silent", _picked),
    "rebalances": ("a group rebalances", _picked),
    "clock_jumps": ("the broker's clock goes forward", lambda chance: {"seconds": chance.choice((1, 5, 10, 30, 60))}),
    "disconnects": ("all connections are reset", lambda _: {}),
    "stalls": ("nothing passes on any connection", lambda chance: {"lasts": round(chance.uniform(0.2, 3), 1)}),
    "crashes": (
        "a broker is killed, and started again",
        lambda chance: {**_picked(chance), "lasts": round(chance.uniform(0.1, 2), 1)},
    ),
}
"""What each kind is, and how its values are drawn."""

USUAL = tuple(kind for kind in KINDS if kind != "crashes")
"""The kinds of a schedule for which none are named: a broker that runs elsewhere cannot be started again."""

EVERY_S = 2.0


def draw(seed: int, seconds: float, kinds: Sequence[str] = USUAL, every: float = EVERY_S) -> list[Event]:
    """Draw the events of so many seconds, one every so many on average. Raises ValueError for an unknown kind."""
    require_kinds(kinds)
    if not seconds > 0 or not every > 0:
        raise ValueError(f"a schedule of {seconds:g} s with an event every {every:g} s: expected numbers above 0")
    chance = random.Random(seed)
    times = sorted(round(chance.uniform(0, seconds), 2) for _ in range(max(1, round(seconds / every))))
    return [Event(at, kind, KINDS[kind][1](chance)) for at in times for kind in [chance.choice(kinds)]]


def require_kinds(kinds: Sequence[str]) -> None:
    """Raises ValueError."""
    if isinstance(kinds, str) or not kinds:
        raise ValueError(f"of = {kinds!r}: expected a list with some of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"of: {kind!r} is none of {', '.join(KINDS)}")


def text_of(events: Iterable[Event]) -> str:
    return "\n".join(map(str, events))


def read(text: str) -> list[Event]:
    """Read the text of a schedule; empty lines and what follows a # are left out. Raises ValueError."""
    events = [_event(words) for line in text.splitlines() if (words := shlex.split(line, comments=True))]
    return sorted(events, key=lambda event: event.at)


def _event(words: Sequence[str]) -> Event:
    line = " ".join(words)
    try:
        at, kind, *named = words
        pairs = [word.split("=", 1) for word in named]
        event = Event(float(at), kind, {name: _value(text) for name, text in pairs})
    except ValueError:
        raise ValueError(f"{line!r} is no event: expected seconds, a kind, and name=value") from None
    require_kinds([kind])
    return event


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def shrink(events: Sequence[Event], fails: Callable[[list[Event]], bool], attempts: int) -> list[Event]:
    """The shortest schedule that was found to fail still, with at most so many attempts; `events` is known to fail.

    First halves are left out, then ever smaller parts, until no single event can be (delta debugging).
    """
    kept = list(events)
    size = max(1, len(kept) // 2)
    while kept and attempts > 0:
        begin, has_shrunk = 0, False
        while begin < len(kept) and attempts > 0:
            fewer = kept[:begin] + kept[begin + size :]
            attempts -= 1
            if fails(fewer):
                kept, has_shrunk = fewer, True
            else:
                begin += size
        if size == 1 and not has_shrunk:
            break
        size = max(1, min(size // 2 if not has_shrunk else size, len(kept)))
    return kept
