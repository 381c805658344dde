"""Whole nodes, with their coordinators and a controller, in one process and in virtual time, as a seed has it.

Nodes are killed and come back, connections break, nodes are cut off, the controller's node too. `check` has what must
hold in the end: each transaction is whole, once, or not at all, as its producer was told; replicas are equal. What must
hold of groups meanwhile is in `group_members`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

from kio.schema.create_topics.v7.request import CreatableTopic

from broker.membership.controller_service import ControllerService
from broker.replication.partition import Partition
from protocol.durations import MILLISECOND
from protocol.errors import KafkaError
from protocol.records.batch import read_header
from protocol.records.build import ControlRecordType, iter_records, read_control_batch
from storage.workers import Workers
from tests.doubles.workers import SlowWorkers
from tests.simulation import group_members
from tests.simulation.group_members import ClassicMember, ConsumerMember, GroupFacts, GroupMember
from tests.simulation.invariants import batches
from tests.simulation.whole_clients import (
    TOPIC,
    CommittingClient,
    OldTransactionalClient,
    TransactionalClient,
    WholeClient,
)
from tests.unit.broker.cluster_rig import CLIENT_PORT, CONTROLLER, CONTROLLER_PORT, ClusterRig, NodeRig

REPLICAS = 3
PARTITIONS = 3
CONFIG = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "2",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.backoff.ms": "200",
    **group_members.CONFIG,
}
EVENTS = {"nothing": 6.0, "move": 3.0, "kill": 1.0, "break": 1.0, "cut": 1.0, "stop": 0.5}
END_MS = 120_000
QUIET_MS = 10_000
"""Until the sessions of all members are over, whose ends are written, and every replica knows the high watermark."""
STEP_MS = 50


class WholeCluster(ClusterRig):
    """At most one node at a time is down or cut off: `min.insync.replicas` are always there."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._disk = random.Random(seed)
        self._longest_ms = self._disk.choice([0, 5, 100])
        super().__init__(brokers=self.rng.choice([2, 3]), config=CONFIG)
        self.network.delay_ms = self.rng.choice([0, 0, 2])
        self.history: list[str] = []
        self._away: asyncio.Task[None] | None = None
        self._moves: list[asyncio.Task[None]] = []

    def workers_of(self, node: NodeRig) -> Workers:
        """Disks take time in some lives: what one of their answers was to tell may not hold any more when it comes."""
        return SlowWorkers(node.clock, lambda _lane: self._disk.uniform(0, self._longest_ms))

    def note(self, what: str) -> None:
        self.history.append(f"{self.clock.monotonic_ms():.0f}: {what}")

    async def live(self, steps: int) -> None:
        """A whole life, within the `async with`."""
        await self._create()
        producers = [
            kind(self, self.rng, f"p{number}", self.rng.sample(range(PARTITIONS), 2))
            for number, kind in enumerate((TransactionalClient, TransactionalClient, OldTransactionalClient))
        ]
        group = CommittingClient(self, self.rng, "g")
        members = self._members()
        clients: list[TransactionalClient | CommittingClient | GroupMember] = [*producers, group, *members]
        tasks = [asyncio.ensure_future(client.run()) for client in clients]
        for _ in range(steps):
            getattr(self, f"_{self.rng.choices(list(EVENTS), list(EVENTS.values()))[0]}")()
            await self.clock.run(self.rng.choice([50, 300, 1_500]))
        self.note("the end")
        for client in clients:
            client.stopping = True
        await self.during(self._until_well(tasks), END_MS)
        await self.clock.run(QUIET_MS)
        committed = await self.during(group.committed())
        assert group.acknowledged <= committed <= group.sent
        for facts in dict.fromkeys(member.facts for member in members):
            await self.during(self._check_offsets(facts))
        self._check(producers)

    def _members(self) -> list[GroupMember]:
        """The members of a group of each protocol, which have all partitions of the topic."""
        topic = self.nodes[CONTROLLER].node.cluster.cache.image.topics.get(TOPIC)
        assert topic is not None
        found: list[GroupMember] = []
        for kind in (ConsumerMember, ClassicMember):
            facts = GroupFacts(kind.__name__, topic.id, range(PARTITIONS))
            found += [kind(self, self.rng, f"m{number}", facts) for number in range(self.rng.choice([1, 2, 3]))]
        return found

    async def _check_offsets(self, facts: GroupFacts) -> None:
        """What was acknowledged is still committed."""
        reader = CommittingClient(self, self.rng, facts.group)
        for index in range(PARTITIONS):
            facts.check_committed(index, await reader.committed(index), facts.acknowledged.get(index, -1))

    async def _create(self) -> None:
        wanted = CreatableTopic(
            name=TOPIC, num_partitions=PARTITIONS, replication_factor=REPLICAS, assignments=(), configs=()
        )
        client = self.nodes[CONTROLLER].connect()
        done = await self.ask(
            client, "create_topics", 7, topics=(wanted,), timeout=30_000 * MILLISECOND, validate_only=False
        )
        assert done.topics[0].error_code.name == "none"

    async def _until_well(self, tasks: list[asyncio.Task[None]]) -> None:
        while self._away is not None or not all(task.done() for task in tasks) or not self._is_well():
            await self.clock.sleep(STEP_MS)
        for task in tasks:
            task.result()
        for move in self._moves:
            assert not move.done() or move.exception() is None, move.exception()

    def _is_well(self) -> bool:
        image = self.nodes[CONTROLLER].node.cluster.cache.image
        return all(
            set(state.isr) == set(state.replicas) and state.has_leader
            for topic in image.topics
            for _, state in topic.in_order()
        )

    # -- what happens

    def _nothing(self) -> None:
        """Time passes."""

    def _begin(self, what: str) -> int | None:
        """A node that something may happen to now; None while another is away."""
        if self._away is not None:
            return None
        node_id = self.rng.choice(list(self.nodes))
        self.note(f"{node_id} {what}")
        return node_id

    def _leave(self, node_id: int | None, absence: str) -> None:
        if node_id is not None:
            self._away = asyncio.ensure_future(getattr(self, absence)(node_id))
            self._away.add_done_callback(self._back)

    def _back(self, task: asyncio.Task[None]) -> None:
        self._away = None
        task.result()

    def _kill(self) -> None:
        self._leave(self._begin("is killed"), "_be_dead")

    async def _be_dead(self, node_id: int) -> None:
        await self.kill(node_id)
        await self.clock.sleep(self.rng.choice([0, 500, 6_000]))
        await self.nodes[node_id].start()
        self.note(f"{node_id} is back")

    def _stop(self) -> None:
        self._leave(self._begin("stops"), "_be_stopped")

    async def _be_stopped(self, node_id: int) -> None:
        rig = self.nodes[node_id]
        await rig.node.stop()
        del rig.node
        await self.clock.sleep(self.rng.choice([0, 500, 6_000]))
        await rig.start()
        self.note(f"{node_id} is back")

    def _cut(self) -> None:
        self._leave(self._begin("is cut off"), "_be_cut_off")

    async def _be_cut_off(self, node_id: int) -> None:
        """Reach no other node, and be reached by none; clients still reach it."""
        host = self.nodes[node_id].host
        addresses = {(host, CLIENT_PORT), (host, CONTROLLER_PORT)}
        self.network.dead.add(host)
        self.network.hangs |= addresses
        self.network.cut_host(host)
        await self.clock.sleep(self.rng.choice([500, 6_000]))
        self.network.dead.discard(host)
        self.network.hangs -= addresses
        self.note(f"{node_id} is reached again")

    def _move(self) -> None:
        """Another replica in sync comes to lead a partition, and with it the coordinator of some clients."""
        cluster = self.nodes[CONTROLLER].node.cluster if hasattr(self.nodes[CONTROLLER], "node") else None
        if cluster is None or cluster.controller_service is None:
            return
        topic = self.rng.choice(list(cluster.cache.image.topics))
        index, state = self.rng.choice(list(topic.in_order()))
        to = self.rng.choice(state.isr or state.replicas)
        self.note(f"{to} is to lead {topic.name}-{index}")
        self._moves.append(asyncio.ensure_future(self._lead(cluster.controller_service, topic.name, index, to)))

    async def _lead(self, service: ControllerService, topic: str, index: int, to: int) -> None:
        try:
            await service.move_leader(topic, index, to)
        except KafkaError as error:
            self.note(f"{to} does not lead {topic}-{index}: {error}")

    def _break(self) -> None:
        """Connections of a node end, and can be opened again."""
        node_id = self.rng.choice(list(self.nodes))
        self.note(f"connections of {node_id} break")
        self.network.cut_host(self.nodes[node_id].host)

    # -- in the end

    def _check(self, producers: list[TransactionalClient]) -> None:
        image = self.nodes[CONTROLLER].node.cluster.cache.image
        for topic in image.topics:
            for index, state in topic.in_order():
                logs = [self.nodes[node_id].node.replicas.find(topic.name, index) for node_id in state.replicas]
                contents = [list(batches(log)) for log in logs]
                assert all(one == contents[0] for one in contents), f"the replicas of {topic.name}-{index} differ"
                assert len({(log.high_watermark, log.last_stable_offset) for log in logs}) == 1, topic.name
        partitions = [list(committed(self._leader(index))) for index in range(PARTITIONS)]
        for producer in producers:
            self._check_transactions(producer, partitions)
        assert any(True in producer.ended for producer in producers), "no transaction was committed at all"

    def _leader(self, index: int) -> Partition:
        node_id = WholeClient(self, random.Random(0)).leader(index)
        assert node_id is not None
        return self.nodes[node_id].node.replicas.find(TOPIC, index)

    def _check_transactions(self, producer: TransactionalClient, partitions: list[list[str]]) -> None:
        """Each is in both of its partitions or in none, with each record once, in order, and as it was told."""
        found = [[value for value in values if value.startswith(f"{producer.name}:")] for values in partitions]
        held = [values for index, values in enumerate(found) if index in producer.partitions]
        assert not any(values for index, values in enumerate(found) if index not in producer.partitions)
        assert held[0] == held[1], f"transactions of {producer.name} are in some partitions only"
        assert max(Counter(held[0]).values(), default=1) == 1, "a record is there twice"
        numbers = [int(value.split(":")[1]) for value in held[0]]
        assert numbers == sorted(numbers)
        for number, was_committed in enumerate(producer.ended):
            assert was_committed is None or was_committed == (number in numbers), f"{producer.name}:{number}"


def committed(partition: Partition) -> Iterator[str]:
    """The values of committed transactions; none is open."""
    open_values: dict[int, list[str]] = {}
    for batch in batches(partition):
        header = read_header(batch)
        if header.is_control:
            control = read_control_batch(batch, header)
            assert control is not None
            assert control[0] is not None
            values = open_values.pop(header.producer_id, [])
            if control[0].type is ControlRecordType.COMMIT:
                yield from values
        else:
            values = [(record.value or b"").decode() for record in iter_records(batch, header)]
            open_values.setdefault(header.producer_id, []).extend(values)
    assert not open_values, f"open transactions in {partition.index}"
