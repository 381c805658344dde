"""A metadata log on files in memory, in a process that can be killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar
from uuid import UUID

from controller.quorum.metadata_log import MetadataLog
from controller.quorum.opening import MetadataLogConfig
from protocol.metadata.topics import ConfigRecord
from protocol.primitives import Buffer
from storage.files import FileSystem, read_file
from storage.log.log_services import LogServices
from storage.shortages import Shortages
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import MemoryFileSystem
from tests.doubles.workers import LoopWorkers
from tests.unit.storage.support import NOW, MachineStopped

T = TypeVar("T")

ROOT = "/data"
FOLDER = f"{ROOT}/__cluster_metadata-0"
NODE_ID = 1


def made_root(fs: MemoryFileSystem) -> MemoryFileSystem:
    """The file system, with a folder of `log.dirs`."""
    fs.mkdir(ROOT)
    fs.fsync_dir("/")
    return fs


def services(fs: FileSystem, clock: ManualClock | None = None) -> LogServices:
    clock = clock or ManualClock(NOW)
    return LogServices(fs, clock, LoopWorkers(), random.Random(0), Shortages(clock.monotonic_ms))


def config_record(number: int, size: int = 0) -> Any:
    """A record that is like no other."""
    return ConfigRecord(resource_type=2, resource_name="t", name=str(number), value="v" * size)


def numbers(records: Iterable[Any]) -> list[int]:
    return [int(record.name) for record in records]


class Process:
    """What has the log open, with an event loop of its own; what it leaves undone when it ends is never done."""

    def __init__(
        self,
        fs: FileSystem,
        clock: ManualClock | None = None,
        config: MetadataLogConfig | None = None,
        directory_id: UUID | None = None,
    ) -> None:
        self.clock = clock or ManualClock(NOW)
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._note)
        self.errors: list[BaseException | str] = []
        self.stopped = False
        self.log = MetadataLog.open(services(fs, self.clock), ROOT, NODE_ID, directory_id=directory_id, config=config)
        self.failures: list[str] = []
        self.log.on_failure = self.failures.append

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception", context["message"])
        if isinstance(error, MachineStopped):
            self.stopped = True
        else:
            self.errors.append(error)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, whose callbacks all run."""
        return self.loop.run_until_complete(work)

    def do(self, action: Callable[[], T]) -> T:
        """The result of something that does not wait, done on the loop."""

        async def now() -> T:
            return action()

        return self.run(now())

    def settle(self) -> None:
        """Run everything that needs no time to pass."""
        self.run(settle())
        assert not self.errors

    def advance(self, ms: float) -> None:
        self.run(self.clock.run(ms))

    def end(self) -> None:
        """As after kill -9."""
        self.clock.drop_all()
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.loop.close()


def files_of(fs: MemoryFileSystem, folder: str = ROOT) -> dict[str, bytes]:
    """The content of every file below the folder."""
    found: dict[str, bytes] = {}
    for name in fs.listdir(folder):
        path = f"{folder}/{name}"
        if fs.is_dir(path):
            found |= files_of(fs, path)
        else:
            found[path] = read_file(fs, path)
    return found


def put(fs: MemoryFileSystem, path: str, data: Buffer) -> None:
    """Make a file with this content."""
    file = fs.open(path, create=True)
    file.truncate(0)
    file.pwrite(data, 0)
    file.close()


def patch(fs: MemoryFileSystem, path: str, position: int, data: Buffer) -> None:
    """Change bytes of a file."""
    file = fs.open(path)
    file.pwrite(data, position)
    file.close()
