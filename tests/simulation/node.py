"""A node of the simulated cluster: its disk, its image, its replicas, and how it answers other nodes."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Mapping
from struct import Struct
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from broker.api.table import handler_of
from broker.membership.metadata_cache import MetadataCache
from broker.membership.publisher import Follower, MetadataPublisher
from broker.replication.cluster_access import BrokerConnection, ClusterAccess, ReplicationSettings
from broker.replication.fetch_session_cache import FetchSessionCache
from broker.replication.replica_manager import ReplicaManager
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol.api import messages
from protocol.api.table import API_BY_KEY
from protocol.primitives import UnreadBytes
from protocol.topic_partition import TopicPartition
from storage.append_types import LogConfig
from storage.folders.log_dirs import LogDirs
from storage.folders.log_manager import LogManager
from storage.folders.strays import FolderState
from storage.log.log_services import LogServices
from storage.shortages import Shortages
from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.simulation.controller import TOPIC_ID
from tests.simulation.mortal import Life, NodeClock, NodeWorkers
from tests.simulation.network import Link, Network
from timing.wheel import TimingWheel

SETTINGS = ReplicationSettings(
    lag_time_max_ms=2_000,
    fetchers=2,
    fetch_wait_max_ms=100,
    fetch_backoff_ms=100,
    socket_timeout_ms=1_000,
    fetch_max_bytes=600,
)
FOLDERS = ["/one", "/two"]
FETCH, LIST_OFFSETS = 1, 2
_HEADER = Struct(">hhih")
FETCH_BYTES = 50 << 20


def log_config(_topic: str, configs: Mapping[str, str]) -> LogConfig:
    """Small segments, so that there are many."""
    return LogConfig(
        segment_bytes=int(configs.get("segment.bytes", 2_000)),
        index_interval_bytes=200,
        min_insync_replicas=int(configs.get("min.insync.replicas", 1)),
        flush_messages=int(configs.get("flush.messages", 2**63 - 1)),
        retention_bytes=int(configs.get("retention.bytes", -1)),
        file_delete_delay_ms=1_000,
    )


class SimulatedNode:
    """Lives from `start` to `crash` or `stop`, again and again, over one disk."""

    def __init__(self, node_id: int, clock: ManualClock, network: Network, controller: Any, rng: random.Random) -> None:
        self.id = node_id
        self.is_up = False
        self.is_serving = False
        self.epoch = self.clean_epoch = -1
        self.version_limit = 18
        self._clock = clock
        self._network = network
        self._controller = controller
        self._rng = rng
        self.fs = MemoryFileSystem(clock.wall_ms)
        self._ids = iter(range(node_id << 32, (node_id + 1) << 32))
        self.replicas: ReplicaManager
        self.cache = MetadataCache()

    def _new_id(self) -> UUID:
        return UUID(int=next(self._ids))

    # -- life and death

    async def start(self, image: MetadataImage, epoch: int) -> None:
        """Recover the logs, and host what the image says."""
        self.life = life = Life()
        self.epoch, self.clean_epoch = epoch, -1
        self.clock = clock = NodeClock(self._clock, life)
        self.cache = MetadataCache(image)
        self._deltas: deque[tuple[list[Any], MetadataImage]] = deque()
        self._publishing: asyncio.Task[None] | None = None
        self._hosts = False
        self.is_up = True
        self._tasks: dict[asyncio.Task[Any], None] = {}  # a set's order is another in each process
        shortages = Shortages(clock.monotonic_ms)
        services = LogServices(self.fs, clock, NodeWorkers(self._rng, life), self._rng, shortages)
        dirs = LogDirs.open(self.fs, FOLDERS, node_id=self.id, new_id=self._new_id, now_ms=0)
        configs = self.cache.topic_configs
        self.logs = LogManager.open(
            services,
            dirs,
            lambda topic: log_config(topic, configs(topic)),
            new_id=self._new_id,
            topic_id_of=lambda _: TOPIC_ID,
            folder_state_of=self._folder_state,
        )
        self.replicas = ReplicaManager(
            self.id,
            self.cache,
            self.logs,
            log_config,
            TimingWheel(clock),
            self._new_id,
            lambda _: None,
            ClusterAccess(lambda: epoch, self._ask_controller, self._connect, lambda: SETTINGS),
        )
        self.publisher = MetadataPublisher(self.cache)
        self.publisher.start([Follower("replicas", self.replicas.follow, self.replicas.prepare)])
        self._sessions = FetchSessionCache(100, clock.monotonic_ms, self._rng)
        self.replicas.tell_changes_to(self._sessions)
        await self.replicas.start()
        self._hosts = True
        self._follow_on()
        self._shrink_later()

    def _folder_state(self, key: TopicPartition, _topic_id: UUID | None, _closed_in: int) -> FolderState:
        topic = self.cache.topic(key.topic)
        state = None if topic is None else topic.partitions.get(key.partition)
        return FolderState.HOSTED if state is not None and self.id in state.replicas else FolderState.DELETED

    async def apply_retention(self) -> None:
        if self.is_serving:
            await self.run(self.replicas.maintenance.apply_retention())

    def serve(self) -> None:
        """Answer other nodes: this one is caught up with the metadata, and unfenced."""
        self.is_serving = True
        self._network.up(self.id, self._serve)

    async def crash(self, unsynced: Unsynced) -> None:
        """The process ends; the machine too, unless everything that is unsynced is kept."""
        self.life.is_over = True
        await self._end()
        self.logs.release()
        self.fs.crash(unsynced)

    async def lose_disks(self) -> None:
        """The process ends, and will come back with nothing."""
        await self.crash(Unsynced.KEPT)
        self.fs = MemoryFileSystem(self._clock.wall_ms)

    async def stop(self, unsynced: Unsynced) -> None:
        """Stop in good order, as a node does once others lead what it led; then the machine may end too."""
        await self._end()
        await self.replicas.moves.stop()
        await self.replicas.maintenance.stop()
        self.life.is_over = True
        self.logs.close(self.epoch)
        self.clean_epoch = self.epoch
        self.fs.crash(unsynced)

    async def _end(self) -> None:
        self.is_up = self.is_serving = False
        self._network.down(self.id)
        tasks = [*self._tasks, *([self._publishing] if self._publishing else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.replicas.stop()

    # -- metadata

    def learn(self, records: list[Any], image: MetadataImage) -> None:
        """Follow a decision of the controller, some time later."""
        if not self.is_up:
            return
        self._deltas.append((records, image))
        self._follow_on()

    def _follow_on(self) -> None:
        if self._deltas and self._hosts and self._publishing is None:
            self._publishing = asyncio.ensure_future(self._publish())

    async def _publish(self) -> None:
        while self._deltas:
            await self._clock.sleep(self._rng.choice([0, 1, 5, 50, 300]))
            while self._network.is_cut(self.id, 0):
                await self._clock.sleep(50)
            records, image = self._deltas.popleft()
            delta = MetadataDelta(self.cache.image)
            delta.replay_all(records)
            await self.publisher.publish(delta, delta.apply(image.offset, 1, 0))
        self._publishing = None

    @property
    def is_current(self) -> bool:
        """Whether it knows all that the controller has decided."""
        return not self._deltas and self._publishing is None

    async def _ask_controller(self, request: Any) -> Any:
        await self._network.travel()
        while self._network.is_cut(self.id, 0):
            await self.clock.sleep(50)
        answer = self._controller().alter_partition(request)
        await self._network.travel()
        while self._network.is_cut(self.id, 0):
            await self.clock.sleep(50)
        return answer

    def _shrink_later(self) -> None:
        def shrink() -> None:
            self.run(self.replicas.shrink_in_sync_replicas())
            self._shrink_later()

        self.clock.call_later(SETTINGS.lag_time_max_ms / 2, shrink)

    def run(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """Do something that ends with this life."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    # -- other nodes

    def _connect(self, node_id: int) -> BrokerConnection | None:
        return Link(self._network, self._clock, self.id, node_id, self.version_limit)

    async def _serve(self, frame: bytes) -> bytes:
        task = self.run(self._answer(frame))
        await asyncio.wait([task])
        if task.cancelled():
            await asyncio.get_running_loop().create_future()  # nobody answers any more
        return bytes(task.result())

    async def _answer(self, frame: bytes) -> bytes:
        key, version, correlation_id, length = _HEADER.unpack_from(frame)
        body = frame[_HEADER.size + length + 1 :]  # with no tagged fields in its header
        handler = handler_of(API_BY_KEY[key])
        if handler.decode is not None:
            request = handler.decode(version, memoryview(body), 0)
        else:
            request = messages.request_reader(key, version)(body, 0)[0]
        response = handler.handle(self._context(version), request)
        if isinstance(response, Awaitable):
            response = await response
        if handler.encode is not None:
            buffers = handler.encode(response, version, correlation_id)
            return b"".join(part for part in buffers if not isinstance(part, UnreadBytes))[4:]
        return bytes(messages.response_writer(key, version)(response, correlation_id))[4:]

    def _context(self, version: int) -> Any:
        """The request context, as far as the two handlers look at it."""
        metrics = SimpleNamespace(
            follower_fetches=0,
            request_error=lambda *_: None,
            fetch_failed=lambda _: None,
            fetched=lambda *_: None,
            topics={},
        )
        local = SimpleNamespace(
            config=SimpleNamespace(integer=lambda _: FETCH_BYTES),
            throttling=SimpleNamespace(enabled=False),
            fetch_sessions=self._sessions,
            metrics=metrics,
        )
        return SimpleNamespace(
            version=version,
            replicas=self.replicas,
            image=self.cache.image,
            local=local,
            connection=SimpleNamespace(listener_name="SIMULATED"),
            permissions=None,
            allows=lambda *_, **__: True,
        )


assert API_BY_KEY[FETCH].name == "fetch"
assert API_BY_KEY[LIST_OFFSETS].name == "list_offsets"
