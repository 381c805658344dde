"""A simulated cluster: brokers, a controller, clients, and all that happens to them, as a seed has it.

Whole replica managers run in one process and in virtual time, joined by a network that delays, loses and is cut; their
disks lose what was not synced. `Invariants` has what must hold after each step, and at the end, when all is well again.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from broker.replicas.partition import Role
from broker.replicas.records_delete import delete_records
from metadata.image import MetadataImage
from protocol.records.build import Record, build_batch
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import Unsynced
from tests.simulation.controller import TOPIC, Controller
from tests.simulation.invariants import Invariants, records
from tests.simulation.network import Network
from tests.simulation.node import FOLDERS, SimulatedNode
from tests.simulation.producers import ALL_REPLICAS, IdempotentProducer, produce

NODES = (1, 2, 3, 4)
REPLICAS = 3
PARTITIONS = 2
MIN_ISR = 2
SESSION_MS = 1_500
REST_MS = 3_000
CONTROLLER = 0
"""The controller's place in the network."""

EVENTS = {
    "produce": 25.0,
    "flush": 4.0,
    "checkpoint": 2.0,
    "kill": 1.2,
    "power": 1.2,
    "cut": 1.0,
    "isolate": 0.7,
    "heal": 1.5,
    "elect": 2.0,
    "delete": 0.5,
    "reassign": 1.0,
    "move": 0.7,
    "retain": 1.0,
}
"""What may happen at a step, and how often."""


class SimulatedCluster:
    """See above. `history` tells what was done, for a seed that fails."""

    def __init__(self, seed: int, **configs: str) -> None:
        self.rng = rng = random.Random(seed)
        self.clock = ManualClock()
        self.network = Network(self.clock, rng)
        self.controller = Controller(rng, self._publish)
        self.nodes = {one: SimulatedNode(one, self.clock, self.network, lambda: self.controller, rng) for one in NODES}
        for node in self.nodes.values():
            node.version_limit = rng.choice([15, 17, 18])
        self.invariants = Invariants(self.nodes, self.controller)
        self.history: list[str] = []
        self._configs = {"min_insync_replicas": str(MIN_ISR), **configs}
        self._produced = 0
        self._changing: set[asyncio.Task[None]] = set()

    def _publish(self, records: list[Any], image: MetadataImage) -> None:
        for node in self.nodes.values():
            node.learn(records, image)

    def note(self, what: str) -> None:
        self.history.append(f"{self.clock.monotonic_ms():.0f}: {what}")

    # -- a life

    async def live(self, steps: int) -> None:
        await self._begin()
        producers = [
            IdempotentProducer(100 + index, index, self.nodes, self.clock, self.rng, self.invariants)
            for index in range(PARTITIONS)
        ]
        for _ in range(steps):
            getattr(self, f"_{self.rng.choices(list(EVENTS), list(EVENTS.values()))[0]}")()
            await self.clock.run(self.rng.choice([1, 10, 50, 200]))
            self.invariants.check()
        await self._end(producers)

    async def _begin(self) -> None:
        for node in self.nodes.values():
            await self._start(node)
        assignments = [tuple(self.rng.sample(NODES, REPLICAS)) for _ in range(PARTITIONS)]
        self.controller.create(assignments, **self._configs)
        await self.clock.run(2_000)

    async def _end(self, producers: list[IdempotentProducer]) -> None:
        """Let everything be well again, and look whether nothing is missing."""
        self.note("the end")
        self.network.heal()
        for producer in producers:
            producer.stop_soon()
        for _ in range(400):
            await self.clock.run(200)
            if not self._changing and self._is_well() and all(producer.is_done for producer in producers):
                break
        self.invariants.check()
        assert self._is_well(), [(state.replicas, state.isr, state.leader) for _, state in self.controller.partitions]
        await self.clock.run(REST_MS)
        self.invariants.check()
        self.invariants.check_end()
        for index, producer in enumerate(producers):
            await producer.stop()
            self._check_exactly_once(index, producer)
        for node in self.nodes.values():
            await node.crash(Unsynced.KEPT)
        await settle()

    def _is_well(self) -> bool:
        return all(
            set(state.isr) == set(state.replicas) and len(state.replicas) == REPLICAS and state.leader >= 0
            for _, state in self.controller.partitions
        )

    def _check_exactly_once(self, index: int, producer: IdempotentProducer) -> None:
        partition = self.nodes[self.controller.partition(index).leader].replicas.find(TOPIC, index)
        prefix = producer.sent[0].split(b":")[0] + b":"
        found = [value for _, value in records(partition, 0, partition.log_end_offset) if value.startswith(prefix)]
        assert found == producer.sent[len(producer.sent) - len(found) :], (
            "what was produced is not there once, in order"
        )

    # -- what happens

    def _up(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if node.is_serving]

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)

    def _produce(self) -> None:
        """Some records to whoever believes that it leads."""
        for _ in range(self.rng.randrange(1, 5)):
            node, index = self.nodes[self.rng.choice(NODES)], self.rng.randrange(PARTITIONS)
            partition = node.replicas.get(TOPIC, index) if node.is_serving else None
            if partition is not None and partition.role is Role.LEADER:
                node.run(self._produce_to(node, index, self.rng.choice([-1, -1, 1])))

    async def _produce_to(self, node: SimulatedNode, index: int, acks: int) -> None:
        self._produced += 1
        values = [f"{self._produced}.{n}".encode() for n in range(self.rng.randrange(1, 4))]
        batch = build_batch([Record(n, self.clock.wall_ms(), None, value) for n, value in enumerate(values)])
        answer = await produce(node, self.clock.wall_ms(), index, batch, acks, timeout_ms=10_000)
        if answer.error_code == 0 and acks == ALL_REPLICAS:
            for number, value in enumerate(values):
                self.invariants.acknowledged[index, answer.base_offset + number] = value

    def _flush(self) -> None:
        for node in self._up():
            for partition in node.replicas:
                if self.rng.random() < 0.5:
                    partition.log.flush()

    def _checkpoint(self) -> None:
        for node in self._up():
            node.logs.checkpoint_high_watermarks()
            node.logs.checkpoint_recovery_points()

    def _retain(self) -> None:
        self._later(self.rng.choice(list(self.nodes.values())).apply_retention())

    def _delete(self) -> None:
        """Delete records as a leader does, also in the middle of a batch."""
        for node in self._up():
            for partition in node.replicas:
                if partition.role is Role.LEADER and self.rng.random() < 0.5:
                    offset = self.rng.randint(partition.log_start_offset, partition.high_watermark)
                    delete_records(partition, offset)
                    self.note(f"records of {partition.index} below {offset} deleted on {node.id}")

    def _elect(self) -> None:
        index = self.rng.randrange(PARTITIONS)
        self.controller.move_leader(index)
        self.note(f"leader of {index}: {self.controller.partition(index).leader}")

    def _reassign(self) -> None:
        index = self.rng.randrange(PARTITIONS)
        target = tuple(self.rng.sample(NODES, REPLICAS))
        self.controller.reassign(index, target)
        self.note(f"{index} to {target}")

    def _move(self) -> None:
        """Move a log to the other folder of its node."""
        node = self.rng.choice(list(self.nodes.values()))
        partition = self.rng.choice(list(node.replicas) or [None]) if node.is_serving else None
        if partition is not None:
            node.replicas.moves.move_again(partition.log, self.rng.choice(FOLDERS))
            self.note(f"{partition.log.name} of {node.id} moves")

    # -- crashes and cuts

    async def _start(self, node: SimulatedNode) -> None:
        epoch = self.controller.register(node.id)
        await node.start(self.controller.image, epoch)
        while not node.is_current or self.network.is_cut(node.id, CONTROLLER):
            await self.clock.sleep(20)
        node.serve()
        self.controller.unfence(node.id)
        self.note(f"{node.id} serves")

    def _kill(self) -> None:
        self._crash(Unsynced.KEPT)

    def _power(self) -> None:
        self._crash(self.rng.choice([Unsynced.LOST, Unsynced.TORN, Unsynced.ANY]))

    def _crash(self, unsynced: Unsynced) -> None:
        node = self.nodes[self.rng.choice(NODES)]
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
        if unsynced is not Unsynced.KEPT:
            self.controller.fence(node.id)  # at once: a second power failure meanwhile is more than is promised
        await self.clock.sleep(SESSION_MS)
        self.controller.fence(node.id)
        await self.clock.sleep(self.rng.choice([0, 100, 3_000]))
        await self._start(node)

    def _cut(self) -> None:
        one, other = self.rng.sample(NODES, 2)
        self.note(f"cut between {one} and {other}")
        self.network.cut(one, other)

    def _heal(self) -> None:
        self.note("heal")
        self.network.heal()

    def _isolate(self) -> None:
        """Cut a node off from the others and the controller, which fences it then; it may believe that it leads."""
        node = self.nodes[self.rng.choice(NODES)]
        if not node.is_serving or not self._others_have_all_of(node):
            return
        self.note(f"{node.id} isolated")
        for other in (CONTROLLER, *NODES):
            if other != node.id:
                self.network.cut(node.id, other)
        self._later(self._fence_and_return(node))

    async def _fence_and_return(self, node: SimulatedNode) -> None:
        epoch = node.epoch
        await self.clock.sleep(SESSION_MS)
        if node.epoch == epoch and self.network.is_cut(node.id, CONTROLLER):
            self.controller.fence(node.id)
            self.note(f"{node.id} fenced")
        while self.network.is_cut(node.id, CONTROLLER) or (node.epoch == epoch and not node.is_current):
            await self.clock.sleep(50)
        if node.epoch == epoch and node.is_serving and not self.controller.is_alive(node.id):
            self.controller.unfence(node.id)  # its session goes on, in the same epoch
            self.note(f"{node.id} unfenced")
