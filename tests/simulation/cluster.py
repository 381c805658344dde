"""A simulated cluster: brokers, a controller, clients, and all that happens to them, as a seed has it.

Whole replica managers run in one process and in virtual time, joined by a network that delays, loses and is cut; their
disks lose what was not synced. `Invariants` has what must hold after each step, and at the end, when all is well again.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from broker.replication.log_maintenance import delete_records
from broker.replication.partition import Role
from metadata.image import MetadataImage
from protocol.records.build import Record, build_batch
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import Unsynced
from tests.simulation.controller import TOPIC, Controller
from tests.simulation.invariants import Invariants, committed_by, records
from tests.simulation.network import Network
from tests.simulation.node import FOLDERS, SimulatedNode
from tests.simulation.producers import ALL_REPLICAS, IdempotentProducer, TransactionalProducer, produce
from tests.simulation.shape import draw

SESSION_MS = 1_500
IDEMPOTENT, TRANSACTIONAL = (IdempotentProducer, 100), (TransactionalProducer, 200)
"""The producers of each partition, and the id of the first."""

REST_MS = 3_000
PATIENT_TURNS = 100
CONTROLLER = 0
"""The controller's place in the network."""


class SimulatedCluster:
    """See above. `history` tells what was done, for a seed that fails."""

    def __init__(self, seed: int, *, unclean: bool = False, transactions: bool = True) -> None:
        kinds = [IDEMPOTENT, TRANSACTIONAL] if transactions else [IDEMPOTENT]
        self._kinds = [] if unclean else kinds  # their sequences may be lost with unclean elections
        self.rng = rng = random.Random(seed)
        self.shape = draw(rng, unclean=unclean)
        self.clock = ManualClock()
        self.network = Network(self.clock, rng)
        self.controller = Controller(rng, self._publish, elr=self.shape.elr)
        self.nodes = {
            one: SimulatedNode(one, self.clock, self.network, lambda: self.controller, rng) for one in self.shape.nodes
        }
        for node in self.nodes.values():
            node.version_limit = rng.choice([15, 17, 18])
        self.invariants = Invariants(self.nodes, self.controller, may_lose=unclean)
        self.history: list[str] = [repr(self.shape)]
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
            kind(producer_id + index, index, self.nodes, self.clock, self.rng, self.invariants)
            for index in range(self.shape.partitions)
            for kind, producer_id in self._kinds
        ]
        events = list(self.shape.events), list(self.shape.events.values())
        for _ in range(steps):
            getattr(self, f"_{self.rng.choices(*events)[0]}")()
            await self.clock.run(self.rng.choice([1, 10, 50, 200]))
            self.invariants.check()
        await self._end(producers)

    async def _begin(self) -> None:
        for node in self.nodes.values():
            await self._start(node)
        assignments = [
            tuple(self.rng.sample(self.shape.nodes, self.shape.replicas)) for _ in range(self.shape.partitions)
        ]
        self.controller.create(assignments, **self.shape.configs)
        await self.clock.run(2_000)

    async def _end(self, producers: list[IdempotentProducer]) -> None:
        """Let everything be well again, and look whether nothing is missing."""
        self.note("the end")
        self.network.heal()
        for producer in producers:
            producer.stop_soon()
        for turn in range(400):
            await self.clock.run(200)
            if turn == PATIENT_TURNS:
                self._cancel_all()
            if not self._changing and self._is_well() and all(producer.is_done for producer in producers):
                break
        self.invariants.check()
        assert self._is_well(), list(self.controller.partitions)
        for producer in producers:
            assert producer.is_done, f"{producer.id} is not acknowledged {producer.sent[-3:]}: {producer.last_answer}"
        await self.clock.run(REST_MS)
        self.invariants.check()
        self.invariants.check_end()
        for producer in producers:
            await producer.stop()
            self._check_exactly_once(producer)
        for node in self.nodes.values():
            await node.crash(Unsynced.KEPT)
        await settle()

    def _cancel_all(self) -> None:
        """Cancel what is still being reassigned: a target that was changed in the middle may never be reached."""
        for index, state in self.controller.partitions:
            if state.adding_replicas or state.removing_replicas:
                self.controller.reassign(index, None)

    def _is_well(self) -> bool:
        return all(
            set(state.isr) == set(state.replicas)
            and state.leader >= 0
            and not (state.adding_replicas or state.removing_replicas)
            for _, state in self.controller.partitions
        )

    def _check_exactly_once(self, producer: IdempotentProducer) -> None:
        """Of what was produced, all that was not deleted is there once, in order, and ended as it was said to."""
        index = producer.index
        partition = self.nodes[self.controller.partition(index).leader].replicas.find(TOPIC, index)
        prefix = b"%d:" % producer.id
        found = [value for _, _, value in records(partition, 0, partition.log_end_offset) if value.startswith(prefix)]
        assert found == producer.sent[len(producer.sent) - len(found) :]
        if isinstance(producer, TransactionalProducer):
            committed = [value for value in committed_by(partition, producer.id) if value in set(found)]
            assert committed == [value for value in producer.committed if value in set(found)]

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
            node, index = self.nodes[self.rng.choice(self.shape.nodes)], self.rng.randrange(self.shape.partitions)
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
        index = self.rng.randrange(self.shape.partitions)
        self.controller.move_leader(index)
        self.note(f"leader of {index}: {self.controller.partition(index).leader}")

    def _reassign(self) -> None:
        index = self.rng.randrange(self.shape.partitions)
        target = tuple(self.rng.sample(self.shape.nodes, self.shape.replicas))
        self.controller.reassign(index, target)
        self.note(f"{index} to {target}")

    def _cancel(self) -> None:
        """Cancel a reassignment, if there is one."""
        index = self.rng.randrange(self.shape.partitions)
        self.controller.reassign(index, None)
        self.note(f"{index} stays")

    def _move(self) -> None:
        """Move a log to the other folder of its node."""
        node = self.rng.choice(list(self.nodes.values()))
        partition = self.rng.choice(list(node.replicas) or [None]) if node.is_serving else None
        if partition is not None:
            node.replicas.moves.move_again(partition.log, self.rng.choice(FOLDERS))
            self.note(f"{partition.log.name} of {node.id} moves")

    # -- crashes and cuts

    async def _start(self, node: SimulatedNode) -> None:
        epoch = self.controller.register(node.id, node.clean_epoch)
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

    def _disk(self) -> None:
        self._crash(None)

    def _crash(self, unsynced: Unsynced | None) -> None:
        """End a node, its machine too unless all is KEPT; None: with its disks."""
        node = self.nodes[self.rng.choice(self.shape.nodes)]
        if not node.is_serving or (unsynced is not Unsynced.KEPT and not self._others_have_all_of(node)):
            return
        self.note(f"{node.id} crashes: {unsynced.name if unsynced else 'all is lost'}")
        self._later(self._crash_and_return(node, unsynced))

    def _stop(self) -> None:
        node = self.nodes[self.rng.choice(self.shape.nodes)]
        if node.is_serving and self._others_have_all_of(node):
            self.note(f"{node.id} shuts down")
            self._later(self._stop_and_return(node, node.epoch))

    async def _stop_and_return(self, node: SimulatedNode, epoch: int) -> None:
        """A controlled shutdown, unless the node crashes before."""
        self.controller.begin_shutdown(node.id)
        while self.controller.leads(node.id) or not node.is_current:
            await self.clock.sleep(20)
            if node.epoch != epoch or not node.is_serving:
                return
        await node.stop(self.rng.choice(list(Unsynced)))
        self.note(f"{node.id} is down")
        self.controller.fence(node.id)
        await self.clock.sleep(self.rng.choice([0, 100, 3_000]))
        await self._start(node)

    def _others_have_all_of(self, node: SimulatedNode) -> bool:
        """Whether what the node may lose is still elsewhere: promised to survive is the loss of one of the ISR."""
        return all(
            any(other != node.id and self.nodes[other].is_serving for other in state.isr)
            for _, state in self.controller.partitions
        )

    async def _crash_and_return(self, node: SimulatedNode, unsynced: Unsynced | None) -> None:
        await (node.lose_disks() if unsynced is None else node.crash(unsynced))
        if unsynced is not Unsynced.KEPT:
            self.controller.fence(node.id)  # at once: a second power failure meanwhile is more than is promised
        await self.clock.sleep(SESSION_MS)
        self.controller.fence(node.id)
        await self.clock.sleep(self.rng.choice([0, 100, 3_000]))
        await self._start(node)

    def _cut(self) -> None:
        one, other = self.rng.sample(self.shape.nodes, 2)
        self.note(f"cut between {one} and {other}")
        self.network.cut(one, other)

    def _heal(self) -> None:
        self.note("heal")
        self.network.heal()

    def _isolate(self) -> None:
        """Cut a node off from the others and the controller, which fences it then; it may believe that it leads."""
        node = self.nodes[self.rng.choice(self.shape.nodes)]
        if not node.is_serving or not self._others_have_all_of(node):
            return
        self.note(f"{node.id} isolated")
        for other in (CONTROLLER, *self.shape.nodes):
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
