"""Groups of the consumer protocol (KIP-848), beside Apache Kafka's: `python -m benchmarks.consumer_protocol --help`.

As in `benchmarks.groups`, the members speak by hand, one connection each: 1,000 members in 50 groups that send
heartbeats, and a group of 100 in which one member is replaced, until each has the assignment it is to have.
"""

from __future__ import annotations

import asyncio
import statistics
import struct
import time
import uuid
from collections.abc import Sequence

import uvloop

from benchmarks.by_hand import Asker, compact_text, flexible_frame, flood, together, unsigned_varint
from benchmarks.compare import compare
from benchmarks.contenders import Contender
from benchmarks.groups import coordinated
from benchmarks.measures import Topic, cpu_seconds

GROUPS, MEMBERS = 50, 20
LARGE_GROUP = 100
REBALANCES = 10
FLOOD_SECONDS = 4.0
CONSUMER_GROUP_HEARTBEAT = 68
REBALANCE_MS = 60_000
PAUSE_S = 0.1
"""Between heartbeats of members that wait for partitions: without one, groups that have joined starve the others."""
NO_TAGS = NULL = b"\0"
NOTHING = unsigned_varint(1)
"""An array without elements."""
UNCHANGED = struct.pack(">i", -1)


class Member(Asker):
    """One member on its connection; after each new assignment, its next heartbeat reports what it owns."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self._identity = compact_text(group) + compact_text(uuid.uuid4().hex)
        self.epoch = 0
        self._owned = NOTHING
        self._tells = True

    async def beat(self, topics: Sequence[str] | None = None) -> None:
        """Send a heartbeat, with the names of the topics that the member subscribes to from now on."""
        joins = self.epoch == 0
        names = NULL if topics is None else unsigned_varint(len(topics) + 1) + b"".join(map(compact_text, topics))
        owned = self._owned if self._tells else NULL
        timeout = struct.pack(">i", REBALANCE_MS) if joins else UNCHANGED
        body = await self.ask(self._frame(timeout, names, owned))
        self._tells = False
        self._take_in(body)

    @property
    def heartbeat(self) -> bytes:
        """A heartbeat that reports nothing new."""
        return self._frame(UNCHANGED, NULL, NULL)

    def _frame(self, timeout: bytes, names: bytes, owned: bytes) -> bytes:
        epoch = struct.pack(">i", self.epoch)
        no_instance_no_rack = NULL + NULL
        no_assignor = NULL
        return flexible_frame(
            CONSUMER_GROUP_HEARTBEAT,
            0,
            self._identity + epoch + no_instance_no_rack + timeout + names + no_assignor + owned + NO_TAGS,
        )

    def _take_in(self, body: bytes) -> None:
        at = 1 + 4
        (error,) = struct.unpack_from(">h", body, at)
        assert error == 0, body
        at += 2
        assert body[at] == 0, "no message"
        at += 1
        at += body[at]  # the member id
        (self.epoch,) = struct.unpack_from(">i", body, at)
        at += 8
        if body[at] == 1:  # an assignment, which has the form of what is owned
            self._owned = body[at + 1 : -2]
            self._tells = True

    @property
    def is_settled(self) -> bool:
        """Whether it has partitions, and has reported them: each topic here has some for every member."""
        return not self._tells and self._owned != NOTHING


async def connect(port: int, group: str) -> Member:
    loop = asyncio.get_running_loop()
    _, member = await loop.create_connection(lambda: Member(group), "127.0.0.1", port)
    return member


async def join(members: Sequence[Member], topic: str) -> None:
    """Join one after another, like the consumers of an application that starts, and go on until nothing changes."""
    for member in members:
        await member.beat([topic])
    await settle(members)


async def settle(members: Sequence[Member]) -> None:
    """Send heartbeats until all members are at one epoch and have reported that they own what they were assigned.

    A group makes a new assignment once in `group.consumer.assignment.interval.ms`, 1 s, so until then some have none.
    """
    while not all(member.is_settled for member in members) or len({member.epoch for member in members}) > 1:
        await asyncio.sleep(PAUSE_S)
        await together([member.beat() for member in members])


async def leave(members: Sequence[Member]) -> None:
    for member in members:
        member.epoch = -1
        await member.beat()
        member.transport.close()


def one_pass(contender: Contender) -> dict[str, float]:
    """Every measure once, by name."""
    with Topic(f"127.0.0.1:{contender.port}", partitions=LARGE_GROUP) as topic:
        return uvloop.run(measure(contender.port, contender.pid(), topic))


async def heartbeats(port: int, pids: Sequence[int], topic: str) -> dict[str, float]:
    """How long the groups take to start, and their heartbeats without a pause; each group asks its coordinator."""
    found: dict[str, float] = {}
    run = uuid.uuid4().hex[:6]
    names = [f"bench-{run}-{number}" for number in range(GROUPS)]
    ports = await together([coordinated(port, name) for name in names])
    groups = [[await connect(port, name) for _ in range(MEMBERS)] for port, name in zip(ports, names, strict=True)]
    began = time.perf_counter()
    await together([join(members, topic) for members in groups])
    found["50 groups of 20: start ms"] = (time.perf_counter() - began) * 1000

    members = [member for group in groups for member in group]
    before = sum(map(cpu_seconds, pids))
    rate = await flood(members, [member.heartbeat for member in members], FLOOD_SECONDS)
    found["1,000 members: heartbeats/s"] = rate
    found["1,000 members: broker CPU us/heartbeat"] = (
        (sum(map(cpu_seconds, pids)) - before) * 1e6 / (rate * FLOOD_SECONDS)
    )
    await leave(members)
    return found


async def measure(port: int, pid: int, topic: str) -> dict[str, float]:
    found = await heartbeats(port, [pid], topic)
    name = f"bench-{uuid.uuid4().hex[:6]}-large"
    await coordinated(port, name)
    large = [await connect(port, name) for _ in range(LARGE_GROUP)]
    await join(large, topic)
    took = []
    for _ in range(REBALANCES):
        await leave([large.pop()])
        large.append(await connect(port, name))
        began = time.perf_counter()
        await large[-1].beat([topic])
        await settle(large)
        took.append((time.perf_counter() - began) * 1000)
    found["100 members: one replaced, ms"] = statistics.median(took)
    await leave(large)
    return found


if __name__ == "__main__":
    compare("python -m benchmarks.consumer_protocol", __doc__, one_pass)
