"""A standalone node's metadata on files in memory, in a process that can be killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from broker.config.broker_config import BrokerConfig
from broker.membership.config_schema import NodeConfigSchema
from broker.membership.metadata_cache import MetadataCache
from broker.membership.publisher import Follower
from broker.membership.standalone import StandaloneMetadata
from controller.brokers import Registration
from controller.decision import Decision, Surroundings
from controller.quorum.opening import MetadataLogConfig
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol import uuids
from storage.log.log_services import LogServices
from storage.shortages import Shortages
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import MemoryFileSystem
from tests.doubles.workers import LaneWorkers
from tests.unit.broker.membership.requests import Request, State, state_of
from tests.unit.controller.images import PLAINTEXT, directory

T = TypeVar("T")

ROOT = "/data"
NODE_ID = 1
SMALL = MetadataLogConfig(
    segment_bytes=2000, max_record_bytes_between_snapshots=2000, min_record_bytes_between_snapshots=2000
)
"""So that there are snapshots."""


def made_root(fs: MemoryFileSystem) -> None:
    fs.mkdir(ROOT)
    fs.fsync_dir("/")


@dataclass(eq=False)
class Call:
    """A request that was made: what was known when it was decided on, and how it ends."""

    request: Request
    answer: asyncio.Task[Any]
    before: State | None = None

    @property
    def after(self) -> State:
        """The state if the request takes effect."""
        assert self.before is not None
        return self.request.apply(self.before)


class Process:
    """`open` it, `lead`, and `ask`; work in threads waits for `work`."""

    def __init__(
        self, fs: MemoryFileSystem, clock: ManualClock, seed: int = 0, config: MetadataLogConfig = SMALL
    ) -> None:
        self.fs = fs
        self.clock = clock
        self.rng = random.Random(seed)
        self.config = config
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _, context: self.errors.append(str(context)))
        self.errors: list[str] = []
        self.workers = LaneWorkers()
        self.cache = MetadataCache()
        self.seen: list[MetadataImage] = []
        self.failures: list[str] = []
        self.metadata: StandaloneMetadata

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, for which all that waits is done, and some time passes if need be."""
        task = self.begin(work)
        assert task.done(), "something is waited for that does not come"
        return task.result()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """The task of `work`, which may wait for a disk that does not get well."""
        task = self.loop.create_task(work)
        for _ in range(100):
            self.work()
            if task.done():
                break
            self.run(self.clock.run(1_000))
        return task

    def work(self, count: int = 10_000) -> None:
        """Do so much of what waits for a thread."""
        for _ in range(count):
            self.run(settle())
            if not self.workers.run_any(self.rng):
                break
        self.run(settle())
        assert not self.errors

    def open(self) -> None:
        """Raises MetadataLogError, OSError."""
        services = LogServices(self.fs, self.clock, self.workers, self.rng, Shortages(self.clock.monotonic_ms))
        config = BrokerConfig.of({"node.id": str(NODE_ID)})
        around = Surroundings(NodeConfigSchema(lambda: config), lambda: uuids.random_uuid(self.rng), NODE_ID)
        self.metadata = self.finish(
            StandaloneMetadata.open(services, ROOT, NODE_ID, directory(NODE_ID), self.cache, around, config=self.config)
        )
        self.metadata.log.on_failure = self.failures.append
        self.metadata.publisher.start([Follower("test", self._see, self._prepare)])

    async def _prepare(self, _delta: MetadataDelta, _image: MetadataImage) -> None:
        """What takes time, as making logs does."""
        await self.workers.lane("logs").call(lambda: None)

    def _see(self, _delta: MetadataDelta, image: MetadataImage) -> None:
        self.seen.append(image)

    def lead(self) -> None:
        """Raises MetadataLogError."""
        incarnation = UUID(int=self.rng.getrandbits(120))
        registration = Registration(NODE_ID, incarnation, [PLAINTEXT], (), None, [directory(NODE_ID)])
        self.finish(self.metadata.lead(registration, 1))

    def ask(self, request: Request) -> Call:
        """Make a request; what it is decided on is known once the loop had a turn."""

        def decide(image: MetadataImage) -> Decision[Any]:
            call.before = state_of(image)
            return request.decide(image, self.metadata.controller.around)

        call = Call(request, self.loop.create_task(self.metadata.controller.submit(decide)))
        return call

    def done(self, request: Request) -> Any:
        """The response to a request, for which all that waits is done."""
        call = self.ask(request)
        self.work()
        return call.answer.result()

    @property
    def shown(self) -> State:
        """What this node's parts are told."""
        return state_of(self.cache.image)

    def stop(self) -> None:
        """A clean stop."""
        self.finish(self.metadata.close())
        self.end()

    def end(self) -> None:
        """As after kill -9."""
        self.fs.unlock_all()
        self.clock.drop_all()
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.loop.close()


def started(fs: MemoryFileSystem, clock: ManualClock, config: MetadataLogConfig = SMALL) -> Process:
    """A process that leads."""
    process = Process(fs, clock, config=config)
    process.open()
    process.lead()
    return process
