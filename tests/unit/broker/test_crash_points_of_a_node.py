"""The power fails before some of the disk operations of a whole node that flushes before it acknowledges.

Its clients produce, write transactions and commit offsets all the while; what they were told holds on the next node.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup

from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.test_transactions import Producer, begun
from tests.unit.broker.wire import batch, produce
from tests.unit.storage.cleaning import records
from tests.unit.storage.test_crash_points import READING, committed_view

CONFIG = {
    "log.flush.interval.messages": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
ROUNDS = 12
SAMPLE = 60


@dataclass
class Promises:
    """What was acknowledged to clients."""

    values: list[bytes] = field(default_factory=list)
    fates: dict[bytes, bool] = field(default_factory=dict)
    offset: int = -1

    def copy(self) -> Promises:
        return Promises(list(self.values), dict(self.fates), self.offset)


@dataclass
class Point:
    operation: str
    fs: MemoryFileSystem
    promised: Promises


@dataclass
class Run:
    """A run over one node; `wanted` is what clients asked to become of each transactional value."""

    keep: set[int]
    promised: Promises = field(default_factory=Promises)
    wanted: dict[bytes, bool] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    operations: int = 0
    last_offset: int = -1

    async def go(self) -> None:
        async with Rig(config=CONFIG) as rig:
            await rig.create("t")
            producer = await begun(rig)
            client = rig.connect()
            await client.ask("find_coordinator", 4, key_type=0, coordinator_keys=("readers",))

            def before(operation: str, path: str) -> None:
                self.operations += 1
                if self.operations in self.keep and operation not in READING:
                    self.points.append(Point(f"{operation} {path}", rig.fs.copy(), self.promised.copy()))

            rig.fs.hook = before
            sequence = 0
            for number in range(ROUNDS):
                await self._produce(client, b"plain %d" % number)
                sequence = await self._transact(producer, b"txn %d" % number, sequence, commit=number % 3 > 0)
                await self.commit_offset(client, number)
                await rig.clock.run(1000)
            rig.fs.hook = None

    async def _produce(self, client: Client, value: bytes) -> None:
        told = await client.ask("produce", 9, **produce("t", {0: batch(value)}))
        assert told.responses[0].partition_responses[0].error_code.name == "none"
        self.promised.values.append(value)

    async def _transact(self, producer: Producer, value: bytes, sequence: int, *, commit: bool) -> int:
        epoch = producer.epoch
        assert await producer.produce(value, sequence) == ["none"]
        self.wanted[value] = commit
        assert await producer.end(commit) == "none"
        self.promised.fates[value] = commit
        return sequence + 1 if producer.epoch == epoch else 0

    async def commit_offset(self, client: Client, offset: int) -> None:
        self.last_offset = offset
        place = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        told = await client.ask(
            "offset_commit",
            9,
            group_id="readers",
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=(OffsetCommitRequestTopic(name="t", partitions=(place,)),),
        )
        assert told.topics[0].partitions[0].error_code.name == "none"
        self.promised.offset = offset


async def check(run: Run, point: Point, unsynced: Unsynced) -> None:
    point.fs.crash(unsynced, seed=len(point.promised.values))
    rig = Rig(fs=point.fs, clock=ManualClock(1_700_000_100_000), config=CONFIG, seed=7)
    point.fs.now_ms = rig.clock.wall_ms
    await rig.start()
    client = rig.connect()
    await client.ask("find_coordinator", 4, key_type=1, coordinator_keys=("tx",))
    await rig.clock.run(5000)
    partition = rig.node.partitions.get("t", 0)
    found = [one.value for one in records(partition.log) if (one.value or b"").startswith(b"plain")]
    assert found[: len(point.promised.values)] == point.promised.values
    assert len(found) <= len(point.promised.values) + 1
    committed = [
        one.value or b""
        for one in committed_view(partition.log, partition.last_stable_offset)
        if (one.value or b"").startswith(b"txn")
    ]
    assert len(set(committed)) == len(committed)
    for value, commit in point.promised.fates.items():
        assert (value in committed) == commit
    assert all(run.wanted[value] for value in committed)
    offset = await committed_offset(client)
    assert offset in (point.promised.offset, point.promised.offset + 1)
    await rig.stop()


async def committed_offset(client: Client) -> int:
    group: Any = OffsetFetchRequestGroup(group_id="readers", member_id=None, member_epoch=-1, topics=None)
    told = await client.ask("offset_fetch", 9, groups=(group,), require_stable=False)
    assert told.groups[0].error_code.name == "none"
    topics = told.groups[0].topics
    return int(topics[0].partitions[0].committed_offset) if topics else -1


@pytest.mark.parametrize("unsynced", list(Unsynced))
async def test_what_clients_were_told_holds_whenever_the_power_fails(unsynced: Unsynced) -> None:
    first = Run(set())
    await first.go()
    assert first.operations > 150
    chance = random.Random(unsynced.value)
    run = Run(set(chance.sample(range(1, first.operations + 1), SAMPLE // len(Unsynced))))
    await run.go()
    assert run.points
    for point in run.points:
        try:
            await check(run, point, unsynced)
        except AssertionError as error:
            raise AssertionError(f"before {point.operation}, promised {point.promised}: {error}") from error
