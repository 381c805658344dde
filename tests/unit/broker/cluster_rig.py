"""Several whole nodes in one process: in memory, in virtual time, over a network in memory.

Node 1 is the controller of the others, and a broker; the others are brokers only. Nodes listen at `node<id>.example`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from unittest.mock import patch

from kio.schema.create_topics.v7.request import CreatableTopic

from broker import node_start
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Listener, Listeners
from broker.network.connection import Connection
from broker.network.server import Server
from broker.node_start import start_node
from broker.node_state import Seams
from protocol.durations import MILLISECOND
from storage.workers import Workers
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.doubles.network import VirtualNetwork
from tests.doubles.workers import LoopWorkers
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer
from timing.clock import Timer

T = TypeVar("T")

CLUSTER_ID = "k2hLyQu2SZu2ZLwXKgnjPw"
CONTROLLER = 1
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
STEP_MS = 5


class VirtualServer(Server):
    """A server whose listeners are addresses of a network in memory."""

    def __init__(self, network: VirtualNetwork, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._network = network
        self._addresses: list[Listener] = []

    async def start(self, listeners: tuple[Listener, ...]) -> None:
        self._addresses = list(listeners)
        self.bound = {listener.name: listener.port for listener in listeners}

    async def serve(self) -> None:
        for listener in self._addresses:
            accept = partial(Connection, self, self._dispatcher, listener.name)
            self._network.listen(listener.host, listener.port, accept)

    async def stop(self) -> None:
        self.vanish()
        await super().stop()

    def vanish(self) -> None:
        """Listen no more, as when the process is gone."""
        for listener in self._addresses:
            self._network.stop_listening(listener.host, listener.port)


class NodeClock(ManualClock):
    """The cluster's time as one node sees it; nothing falls due any more for one that is dead."""

    def __init__(self, shared: ManualClock) -> None:
        super().__init__()
        self._shared = shared
        self.dead = False

    def monotonic_ms(self) -> float:
        return self._shared.monotonic_ms()

    def wall_ms(self) -> int:
        return self._shared.wall_ms()

    async def run(self, ms: float) -> None:
        await self._shared.run(ms)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._shared.call_later(delay_ms, lambda: None if self.dead else callback())


class NodeRig(Rig):
    """One node."""

    def __init__(self, cluster: ClusterRig, node_id: int, fs: MemoryFileSystem | None = None, seed: int = 1) -> None:
        super().__init__(
            fs=fs or MemoryFileSystem(cluster.clock.wall_ms),
            clock=NodeClock(cluster.clock),
            seed=100 * seed + node_id,
            config=cluster.config,
        )
        self.cluster = cluster
        self.node_id = node_id
        self.workers = cluster.workers_of(self)

    @property
    def host(self) -> str:
        return f"node{self.node_id}.example"

    async def start(self) -> None:
        """Start the node; time has to move meanwhile."""
        is_controller = self.node_id == CONTROLLER
        self.seed += 1  # no two runs of a node are the same incarnation
        settings = {
            "node.id": str(self.node_id),
            "log.dirs": "/data",
            "odradek.http.port": "-1",
            "odradek.cluster.id": CLUSTER_ID,
            "process.roles": self.cluster.controller_roles if is_controller else "broker",
            "controller.quorum.voters": f"{CONTROLLER}@node{CONTROLLER}.example:{CONTROLLER_PORT}",
            "controller.listener.names": "CONTROLLER",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
        config = BrokerConfig.of({**settings, **self.config})
        for_clients = Listener("PLAINTEXT", "PLAINTEXT", self.host, CLIENT_PORT)
        for_nodes = (Listener("CONTROLLER", "PLAINTEXT", self.host, CONTROLLER_PORT),) if is_controller else ()
        client_listeners = (for_clients,) if "broker" in settings["process.roles"] else ()
        listeners = Listeners(client_listeners, client_listeners, (), for_nodes, for_nodes)
        network = self.cluster.network
        network.dead.discard(self.host)
        connect = partial(network.connect, origin=self.host)
        seams = Seams(self.clock, self.fs, self.workers, random.Random(self.seed), connect)
        with patch.object(node_start, "Server", partial(VirtualServer, network)):
            self.node = await start_node(config, listeners, seams)


class ClusterRig:
    """`async with ClusterRig(brokers=2) as cluster:`; `config` is for every node, `controller_roles` for node 1."""

    def __init__(
        self, brokers: int = 2, config: Mapping[str, str] | None = None, controller_roles: str = "broker,controller"
    ) -> None:
        self.controller_roles = controller_roles
        self.clock = ManualClock()
        self.network = VirtualNetwork(self.clock)
        self.config = dict(config or {})
        self._kills = 0
        self.nodes = {node_id: NodeRig(self, node_id) for node_id in range(1, 2 + brokers)}

    async def __aenter__(self) -> ClusterRig:
        for node in self.nodes.values():
            await self.during(node.start())
        return self

    async def __aexit__(self, *_error: object) -> None:
        for node_id in sorted(self.nodes, reverse=True):
            await self.stop(node_id)

    async def during(self, work: Awaitable[T], limit_ms: float = 300_000) -> T:
        """The result of something that takes time, which moves meanwhile."""
        task = asyncio.ensure_future(work)
        end_ms = self.clock.monotonic_ms() + limit_ms
        while not task.done():
            assert self.clock.monotonic_ms() < end_ms, f"not done within {limit_ms} ms of virtual time"
            await self.clock.run(STEP_MS)
        return task.result()

    def workers_of(self, _node: NodeRig) -> Workers:
        return LoopWorkers()

    async def stop(self, node_id: int) -> None:
        """Stop a node cleanly, if it runs."""
        node = self.nodes[node_id]
        if hasattr(node, "node"):
            await self.during(node.node.stop())
            del node.node

    async def kill(self, node_id: int, unsynced: Unsynced = Unsynced.KEPT) -> None:
        """End a node as kill -9 does, or as the machine's failure does; it can be started again."""
        node = self.nodes[node_id]
        assert isinstance(node.clock, NodeClock)
        node.clock.dead = True
        self.network.kill(node.host)
        await settle()
        node.fs.crash(unsynced)
        self._kills += 1
        self.nodes[node_id] = NodeRig(self, node_id, node.fs, seed=1 + self._kills)

    async def start(self, node_id: int) -> None:
        await self.during(self.nodes[node_id].start())

    async def ask(self, client: Client, api: str, version: int, **fields: Any) -> Any:
        """The answer to one request, which may take time."""
        client.send(api, version, **fields)

        async def answered() -> bytes:
            while not (replies := client.replies()):
                await self.clock.sleep(STEP_MS)
            return replies[0]

        return answer(await self.during(answered()), api, version)

    async def create(self, node_id: int, topic: str, partitions: int) -> str:
        """Create a topic through a node; return the name of the error code."""
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
        client = self.nodes[node_id].connect()
        done = await self.ask(
            client, "create_topics", 7, topics=(wanted,), timeout=30_000 * MILLISECOND, validate_only=False
        )
        client.transport.reset()
        name: str = done.topics[0].error_code.name
        return name
