"""Consumer groups, beside Apache Kafka's: `python -m benchmarks.groups --help`.

The members speak the protocol by hand, one connection each, so that the client, which shares the machine's cores with
the broker, costs little: 1,000 members in 50 groups that send heartbeats, 100 members of one group that rebalance, and
50 members that each commit an offset as soon as the previous commit is answered.
"""

from __future__ import annotations

import asyncio
import statistics
import struct
import time
import uuid
from collections.abc import Sequence

import uvloop

from benchmarks.by_hand import Asker, data, flood, frame, text, together
from benchmarks.compare import compare
from benchmarks.contenders import Contender
from benchmarks.measures import Topic, cpu_seconds

GROUPS, MEMBERS = 50, 20
LARGE_GROUP = 100
REBALANCES = 10
FLOOD_SECONDS = 4.0
SESSION_MS = 45_000
REBALANCE_MS = 60_000
MEMBER_ID_REQUIRED = 79
OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 10, 11, 12, 13, 14
VERSIONS = {OFFSET_COMMIT: 7, FIND_COORDINATOR: 1, JOIN_GROUP: 5, HEARTBEAT: 3, LEAVE_GROUP: 3, SYNC_GROUP: 3}
NULL = struct.pack(">h", -1)


class Member(Asker):
    """One member on its connection."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.others: list[str] = []

    # -- requests

    async def join(self, user_data: bytes) -> None:
        timeouts = struct.pack(">ii", SESSION_MS, REBALANCE_MS)
        subscription = struct.pack(">hi", 0, 1) + text("a-topic") + data(user_data)
        protocols = struct.pack(">i", 1) + text("range") + data(subscription)
        while True:
            body = await self.ask(
                frame(
                    JOIN_GROUP,
                    VERSIONS[JOIN_GROUP],
                    text(self.group),
                    timeouts,
                    text(self.member_id),
                    NULL,
                    text("consumer"),
                    protocols,
                )
            )
            error, self.generation = struct.unpack_from(">hi", body, 4)
            _, at = _text_at(body, 10)
            leader, at = _text_at(body, at)
            self.member_id, at = _text_at(body, at)
            if error != MEMBER_ID_REQUIRED:
                break
        assert error == 0, error
        self.leads = leader == self.member_id
        (count,) = struct.unpack_from(">i", body, at)
        at += 4
        self.others = []
        for _ in range(count):
            member_id, at = _text_at(body, at)
            self.others.append(member_id)
            at += 2  # no instance id
            at += 4 + int.from_bytes(body[at : at + 4], "big")

    async def sync(self) -> None:
        shares = [text(member_id) + data(b"a share of a topic's partitions") for member_id in self.others]
        body = await self.ask(
            frame(SYNC_GROUP, VERSIONS[SYNC_GROUP], self._identity, struct.pack(">i", len(shares)), *shares)
        )
        assert body[4:6] == b"\0\0", body

    @property
    def _identity(self) -> bytes:
        return text(self.group) + struct.pack(">i", self.generation) + text(self.member_id) + NULL

    @property
    def heartbeat(self) -> bytes:
        return frame(HEARTBEAT, VERSIONS[HEARTBEAT], self._identity)

    def commit(self, topic: str) -> bytes:
        place = struct.pack(">iiqi", 1, 0, 0, -1)  # one partition, the first: offset 0, no leader epoch
        places = struct.pack(">i", 1) + text(topic) + place + text("")
        return frame(OFFSET_COMMIT, VERSIONS[OFFSET_COMMIT], self._identity, places)


def _text_at(body: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", body, at)
    end = at + 2 + max(length, 0)
    return body[at + 2 : end].decode(), end


async def connect(port: int, group: str) -> Member:
    loop = asyncio.get_running_loop()
    _, member = await loop.create_connection(lambda: Member(group), "127.0.0.1", port)
    return member


async def rebalance(members: Sequence[Member], user_data: bytes) -> None:
    """Let all join, with user data that cause a rebalance if they differ from before, and sync."""
    await together([member.join(user_data) for member in members])
    await together([member.sync() for member in members])


async def accepted(members: Sequence[Member], requests: Sequence[bytes]) -> None:
    """Send each member's request, until it is answered without an error code at its end."""
    for member, request in zip(members, requests, strict=True):
        assert (await member.ask(request))[-2:] == b"\0\0", "refused"


async def paced(members: Sequence[Member], seconds: int) -> list[float]:
    """Round trips of heartbeats in ms; every member sends one a second, evenly spread."""
    trips: list[float] = []

    async def beat(member: Member, delay: float) -> None:
        await asyncio.sleep(delay)
        request = member.heartbeat
        for _ in range(seconds):
            began = time.perf_counter()
            await member.ask(request)
            took = time.perf_counter() - began
            trips.append(took * 1000)
            await asyncio.sleep(max(1 - took, 0))

    await together([beat(member, number / len(members)) for number, member in enumerate(members)])
    return trips


async def leave(members: Sequence[Member]) -> None:
    for member in members:
        one = struct.pack(">i", 1) + text(member.member_id) + NULL
        await member.ask(frame(LEAVE_GROUP, VERSIONS[LEAVE_GROUP], text(member.group), one))
        member.transport.close()


async def coordinated(port: int, group: str) -> int:
    """Wait until the group has a coordinator: its port."""
    member = await connect(port, group)
    for _ in range(100):
        body = await member.ask(frame(FIND_COORDINATOR, VERSIONS[FIND_COORDINATOR], text(group), b"\0"))
        if body[4:6] == b"\0\0":
            break
        await asyncio.sleep(0.1)
    member.transport.close()
    return int.from_bytes(body[-4:], "big")


def one_pass(contender: Contender) -> dict[str, float]:
    """Every measure once, by name."""
    with Topic(f"127.0.0.1:{contender.port}") as topic:
        return uvloop.run(measure(contender.port, contender.pid(), topic))


async def measure(port: int, pid: int, topic: str) -> dict[str, float]:
    found: dict[str, float] = {}
    run = uuid.uuid4().hex[:6]
    names = [f"bench-{run}-{number}" for number in range(GROUPS)]
    await together([coordinated(port, name) for name in names])
    members = [await connect(port, name) for name in names for _ in range(MEMBERS)]
    await rebalance(members, b"")

    heartbeats = [member.heartbeat for member in members]
    await accepted(members, heartbeats)
    before = cpu_seconds(pid)
    rate = await flood(members, heartbeats, FLOOD_SECONDS)
    found["1,000 members: heartbeats/s"] = rate
    found["1,000 members: broker CPU us/heartbeat"] = (cpu_seconds(pid) - before) * 1e6 / (rate * FLOOD_SECONDS)
    trips = await paced(members, 3)
    found["1,000 heartbeats a second: p99 ms"] = statistics.quantiles(trips, n=100)[98]

    leaders = [member for member in members if member.leads]
    commits = [member.commit(topic) for member in leaders]
    await accepted(leaders, commits)
    before = cpu_seconds(pid)
    rate = await flood(leaders, commits, FLOOD_SECONDS)
    found["50 members: offset commits/s"] = rate
    found["50 members: broker CPU us/commit"] = (cpu_seconds(pid) - before) * 1e6 / (rate * FLOOD_SECONDS)
    await leave(members)

    large = [await connect(port, f"bench-{run}-large") for _ in range(LARGE_GROUP)]
    await coordinated(port, f"bench-{run}-large")
    await rebalance(large, b"")
    took = []
    for number in range(REBALANCES):
        began = time.perf_counter()
        await rebalance(large, b"%d" % number)
        took.append((time.perf_counter() - began) * 1000)
    found["100 members: rebalance ms"] = statistics.median(took)
    await leave(large)
    return found


if __name__ == "__main__":
    compare("python -m benchmarks.groups", __doc__, one_pass)
