"""A simulated cluster: three brokers, a controller, clients, and all that happens to them, as a seed has it.

Whole replica managers run in one process and in virtual time, joined by a network that delays, loses and is cut; their
disks lose what was not synced. What must hold is checked after each step (`check`), and at the end, when all is well
again (`end`): nothing that was acknowledged is lost, what was once readable never changes, replicas are equal below the
high watermark, no leader epoch has two leaders, and no high watermark moves back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

from broker.replicas.delayed_produce import Unacknowledged
from broker.replicas.partition import Partition, Role
from broker.replicas.records_append import RecordsAppend
from broker.replicas.records_delete import delete_records
from metadata.image import MetadataImage
from protocol.produce_fetch.produce_messages import ProduceResponse
from protocol.records.batch import read_header
from protocol.records.build import Record, build_batch, iter_records
from storage.log.segment_recovery import whole_batches
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import Unsynced
from tests.simulation.controller import TOPIC, Controller
from tests.simulation.network import Network
from tests.simulation.node import SimulatedNode

NODES = (1, 2, 3)
PARTITIONS = 2
MIN_ISR = 2
SESSION_MS = 1_500
LONG_MS = 3_000

Place = tuple[int, int]
"""(partition, offset)"""


class NoMetrics:
    def produced(self, topic: str, messages: int, size: int) -> None: ...
    def produce_failed(self, topic: str) -> None: ...
    def request_error(self, api: str, error: Any) -> None: ...


class SimulatedCluster:
    """See above. `log` tells what was done, for a seed that fails."""

    def __init__(self, seed: int, **configs: str) -> None:
        self.rng = rng = random.Random(seed)
        self.clock = ManualClock()
        self.network = Network(self.clock, rng)
        self.controller = Controller(rng, self._publish)
        self.nodes = {one: SimulatedNode(one, self.clock, self.network, lambda: self.controller, rng) for one in NODES}
        for node in self.nodes.values():
            node.version_limit = rng.choice([15, 17, 18])
        self.configs = {"min_insync_replicas": str(MIN_ISR), **configs}
        self.acknowledged: dict[Place, bytes] = {}
        self.seen: dict[Place, bytes] = {}
        self.log: list[str] = []
        self._watermarks: dict[tuple[int, int], tuple[int, Partition]] = {}
        self._produced = 0
        self._producing: set[asyncio.Task[None]] = set()
        self._changing: set[asyncio.Task[None]] = set()

    def _publish(self, records: list[Any], image: MetadataImage) -> None:
        for node in self.nodes.values():
            node.learn(records, image)

    def note(self, what: str) -> None:
        self.log.append(f"{self.clock.monotonic_ms():.0f}: {what}")

    # -- a life

    async def begin(self) -> None:
        for node in self.nodes.values():
            await self._start(node)
        order = list(NODES)
        assignments = []
        for _ in range(PARTITIONS):
            self.rng.shuffle(order)
            assignments.append(tuple(order))
        self.controller.create(assignments, **self.configs)
        await self.clock.run(2_000)

    async def live(self, steps: int) -> None:
        await self.begin()
        for _ in range(steps):
            self._step()
            await self.clock.run(self.rng.choice([1, 10, 50, 200]))
            self.check()
        await self.end()

    def _step(self) -> None:
        match self.rng.choices(
            ["produce", "flush", "checkpoint", "kill", "power", "cut", "isolate", "heal", "elect", "delete"],
            [30, 4, 2, 1.2, 1.2, 1, 0.7, 1.5, 2, 0.5],
        )[0]:
            case "produce":
                for _ in range(self.rng.randrange(1, 5)):
                    self._produce()
            case "flush":
                self._flush()
            case "checkpoint":
                for node in self._up():
                    node.logs.checkpoint_high_watermarks()
                    node.logs.checkpoint_recovery_points()
            case "kill":
                self._crash(Unsynced.KEPT)
            case "power":
                self._crash(self.rng.choice([Unsynced.LOST, Unsynced.TORN, Unsynced.ANY]))
            case "cut":
                one, other = self.rng.sample(NODES, 2)
                self.note(f"cut between {one} and {other}")
                self.network.cut(one, other)
            case "isolate":
                self._isolate(self.rng.choice(NODES))
            case "heal":
                self.note("heal")
                self.network.heal()
            case "elect":
                index = self.rng.randrange(PARTITIONS)
                self.controller.move_leader(index)
                self.note(f"leader of {index}: {self.controller.partition(index).leader}")
            case "delete":
                self._delete()

    # -- what happens

    def _up(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if node.is_serving]

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)

    def _flush(self) -> None:
        for node in self._up():
            for partition in node.replicas:
                if self.rng.random() < 0.5:
                    partition.log.flush()

    async def _start(self, node: SimulatedNode) -> None:
        epoch = self.controller.register(node.id)
        await node.start(self.controller.image, epoch)
        while not node.is_current or self.network.is_cut(node.id, 0):
            await self.clock.sleep(20)
            if not node.is_up:
                return
        node.serve()
        self.controller.unfence(node.id)
        self.note(f"{node.id} serves")

    def _crash(self, unsynced: Unsynced) -> None:
        node = self.rng.choice(list(self.nodes.values()))
        if not node.is_serving or (unsynced is not Unsynced.KEPT and not self._others_have_all_of(node)):
            return
        self.note(f"{node.id} crashes: {unsynced.name}")
        self._later(self._crash_and_return(node, unsynced))

    def _others_have_all_of(self, node: SimulatedNode) -> bool:
        """Whether what the node may lose is still elsewhere: promised to survive is the loss of one of the ISR."""
        return all(
            any(other != node.id and self.nodes[other].is_serving for other in state.isr)
            for _, state in self.controller.partitions
        )

    async def _crash_and_return(self, node: SimulatedNode, unsynced: Unsynced) -> None:
        await node.crash(unsynced)
        for index in range(PARTITIONS):
            self._watermarks.pop((node.id, index), None)
        if unsynced is not Unsynced.KEPT:
            self.controller.fence(node.id)  # at once: a second power failure meanwhile is more than is promised
        await self.clock.sleep(SESSION_MS)
        self.controller.fence(node.id)
        await self.clock.sleep(self.rng.choice([0, 100, 3_000]))
        await self._start(node)

    def _isolate(self, node_id: int) -> None:
        """Cut a node off from the others and the controller, which fences it then; it may believe that it leads."""
        if not self.nodes[node_id].is_serving or not self._others_have_all_of(self.nodes[node_id]):
            return
        self.note(f"{node_id} isolated")
        for other in (0, *NODES):
            if other != node_id:
                self.network.cut(node_id, other)
        self._later(self._fence_and_return(self.nodes[node_id]))

    async def _fence_and_return(self, node: SimulatedNode) -> None:
        epoch = node.epoch
        await self.clock.sleep(SESSION_MS)
        if node.epoch == epoch and self.network.is_cut(node.id, 0):
            self.controller.fence(node.id)
            self.note(f"{node.id} fenced")
        while self.network.is_cut(node.id, 0) or (node.epoch == epoch and not node.is_current):
            await self.clock.sleep(50)
        if node.epoch == epoch and node.is_serving and not self.controller.is_alive(node.id):
            self.controller.unfence(node.id)  # its session goes on, in the same epoch
            self.note(f"{node.id} unfenced")

    # -- clients

    def _produce(self) -> None:
        node = self.rng.choice(list(self.nodes.values()))
        if not node.is_serving:
            return
        index = self.rng.randrange(PARTITIONS)
        partition = node.replicas.get(TOPIC, index)
        if partition is None or partition.role is not Role.LEADER:
            return
        self._produced += 1
        values = [f"{self._produced}.{n}".encode() for n in range(self.rng.randrange(1, 4))]
        acks = self.rng.choice([-1, -1, -1, 1])
        batch = memoryview(
            build_batch([Record(n, self.clock.wall_ms(), None, value) for n, value in enumerate(values)])
        )
        append = RecordsAppend(node.replicas, NoMetrics(), acks, 9, self.clock.wall_ms(), {}, False)
        append.append(TOPIC, TOPIC, [(index, batch)])
        answer = append.topics[0][1][0]
        if answer.error_code:
            return
        if acks == -1:
            task = node.run(self._await_acknowledgement(node, append.unacknowledged, index, answer, values))
            self._producing.add(task)
            task.add_done_callback(self._producing.discard)

    def _delete(self) -> None:
        """Delete records as a leader does, also in the middle of a batch."""
        for node in self._up():
            for partition in node.replicas:
                if partition.role is Role.LEADER and self.rng.random() < 0.5:
                    offset = self.rng.randint(partition.log_start_offset, partition.high_watermark)
                    delete_records(partition, offset)
                    self.note(f"records of {partition.index} below {offset} deleted on {node.id}")

    async def _await_acknowledgement(
        self, node: SimulatedNode, waiting: list[Unacknowledged], index: int, answer: Any, values: list[bytes]
    ) -> None:
        base_offset = answer.base_offset
        await node.replicas.when_committed(waiting, 10_000, ProduceResponse([]))
        if answer.error_code == 0:
            for number, value in enumerate(values):
                self.acknowledged[index, base_offset + number] = value

    # -- what must hold

    def check(self) -> None:
        leaders: dict[tuple[int, int], int] = {}
        for node in self.nodes.values():
            if not node.is_serving:
                continue
            for partition in node.replicas:
                assert not partition.log.is_offline, f"{node.id} {partition.log.name} is offline"
                self._check_partition(node, partition)
                if partition.role is Role.LEADER:
                    term = (partition.index, partition.leader_epoch)
                    assert leaders.setdefault(term, node.id) == node.id, f"two leaders of {term}"

    def _check_partition(self, node: SimulatedNode, partition: Partition) -> None:
        key = (node.id, partition.index)
        known, before = self._watermarks.get(key, (0, partition))
        assert before is not partition or partition.high_watermark >= known, f"high watermark of {key} moved back"
        self._watermarks[key] = partition.high_watermark, partition
        assert partition.log_start_offset <= partition.high_watermark <= partition.log_end_offset
        start = known if before is partition else 0
        for offset, value in records(partition, start, partition.high_watermark):
            place = (partition.index, offset)
            assert self.seen.setdefault(place, value) == value, f"{place} changed on {node.id}"

    async def end(self) -> None:
        """Let everything be well again, and look whether nothing is missing."""
        self.note("the end")
        self.network.heal()
        for _ in range(400):
            await self.clock.run(200)
            if not self._changing and self._all_in_sync():
                break
        self.check()
        assert self._all_in_sync(), [(state.isr, state.leader) for _, state in self.controller.partitions]
        await self.clock.run(LONG_MS)
        self.check()
        for index in range(PARTITIONS):
            self._check_end(index)
        for node in self.nodes.values():
            await node.crash(Unsynced.KEPT)
        await settle()

    def _all_in_sync(self) -> bool:
        return all(len(state.isr) == len(NODES) and state.leader >= 0 for _, state in self.controller.partitions)

    def _check_end(self, index: int) -> None:
        logs = [self.nodes[node].replicas.find(TOPIC, index) for node in NODES]
        logs.sort(key=lambda one: one.role is not Role.LEADER)
        ends = {(one.log_end_offset, one.high_watermark) for one in logs}
        assert len(ends) == 1, f"partition {index}: {ends}"
        assert logs[0].high_watermark == logs[0].log_end_offset
        assert min(one.log_start_offset for one in logs) == logs[0].log_start_offset
        start = max(one.log_start_offset for one in logs)  # a power failure may take back that records were deleted
        contents = [list(batches(one, start)) for one in logs]
        assert contents[0] == contents[1] == contents[2]
        first_epochs = [entry.start_offset for one in logs for entry in one.log.leader_epochs.entries[:1]]
        known = max(start, *first_epochs)  # nor does it bring back leader epochs that went with them
        epochs = {epochs_from(one, known) for one in logs}
        assert len(epochs) == 1, f"partition {index}: {epochs}"
        held = dict(records(logs[0], 0, logs[0].log_end_offset))
        for (partition, offset), value in self.acknowledged.items():
            if partition == index and offset >= start:
                assert held.get(offset) == value, f"acknowledged {value!r} at {index}, {offset} is {held.get(offset)!r}"


def epochs_from(partition: Partition, start: int) -> tuple[tuple[int, int], ...]:
    """The leader epochs that have records from `start` on, and where they begin there."""
    entries = partition.log.leader_epochs.entries
    ends = [entry.start_offset for entry in entries[1:]] + [partition.log_end_offset]
    return tuple(
        (entry.epoch, max(start, entry.start_offset))
        for entry, end in zip(entries, ends, strict=True)
        if max(start, entry.start_offset) < end
    )


def batches(partition: Partition, start: int = 0) -> Iterator[bytes]:
    """The batches of a log from the one that holds `start` on, byte for byte, without a turn of the loop."""
    log = partition.log
    start = max(start, log.log_start_offset)
    for segment in log.segments.from_offset(start):
        for _, header, batch in whole_batches(segment.file.open(), 0, segment.size):
            if header.last_offset >= start:
                yield bytes(batch)


def records(partition: Partition, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(offset, value) of the records from `start` up to `end`."""
    for batch in batches(partition, start):
        header = read_header(batch)
        for record in iter_records(batch, header):
            if start <= record.offset < end:
                yield record.offset, record.value or b""
        if header.next_offset >= end:
            return
