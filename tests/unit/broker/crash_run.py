"""Clients at work on a node whose disk is copied at chosen moments, beside what they had been told by then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup

from tests.doubles.files import MemoryFileSystem
from tests.unit.broker.members import commit
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.transactions import Producer, begun
from tests.unit.broker.wire import batch, produce
from tests.unit.storage.crashing import READING

CONFIG = {
    "log.flush.interval.messages": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
ROUNDS = 12


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
    """The disk as it was before an operation, and what had been acknowledged."""

    operation: str
    fs: MemoryFileSystem
    promised: Promises


@dataclass
class Run:
    """A run over one node, with a `Point` at each disk operation whose number is in `keep`.

    `wanted` is what clients asked to become of each transactional value.
    """

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
        assert await commit(client, "readers", "t", {0: offset}) == ["none"]
        self.promised.offset = offset


async def committed_offset(client: Client) -> int:
    group: Any = OffsetFetchRequestGroup(group_id="readers", member_id=None, member_epoch=-1, topics=None)
    told = await client.ask("offset_fetch", 9, groups=(group,), require_stable=False)
    assert told.groups[0].error_code.name == "none"
    topics = told.groups[0].topics
    return int(topics[0].partitions[0].committed_offset) if topics else -1
