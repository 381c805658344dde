"""Flushing one log: `fdatasync` in a worker thread, one at a time, covering every append before it started."""

from collections.abc import Callable

from storage.files import File, FileSystem
from storage.segment import LogOffsetMetadata
from storage.workers import Workers


class FlushWork:
    """What one flush must sync: open files, files by name, and the folder if names changed in it.

    `target` is the log's end when the flush was prepared, `generation` the log's count of truncations then.
    """

    __slots__ = ("files", "folder", "fs", "generation", "names", "release", "target")

    def __init__(
        self,
        fs: FileSystem,
        target: LogOffsetMetadata,
        generation: int,
        files: list[File],
        names: list[str],
        folder: str | None,
        release: Callable[[], None],
    ) -> None:
        self.fs = fs
        self.target = target
        self.generation = generation
        self.files = files
        self.names = names
        self.folder = folder
        self.release = release

    def run(self) -> None:
        """Blocking; any thread. Raises OSError."""
        for file in self.files:
            file.fdatasync()
        for name in self.names:
            try:
                file = self.fs.open(name)
            except FileNotFoundError:
                continue  # its segment was removed meanwhile
            try:
                file.fdatasync()
            finally:
                file.close()
        if self.folder is not None:
            self.fs.fsync_dir(self.folder)


class GroupCommit:
    """One flush at a time; a request that comes meanwhile is served by the next one, together with all others."""

    __slots__ = ("_done", "_failed", "_prepare", "_requested", "_running", "_workers")

    def __init__(
        self,
        workers: Workers,
        prepare: Callable[[], FlushWork | None],
        done: Callable[[FlushWork], None],
        failed: Callable[[Exception], object],
    ) -> None:
        self._workers = workers
        self._prepare = prepare
        self._done = done
        self._failed = failed
        self._running = False
        self._requested = False

    def request(self) -> None:
        """Start a flush of all that is appended by now, or have the next one cover it."""
        if self._running:
            self._requested = True
            return
        work = self._prepare()
        if work is None:
            return
        self._running = True
        self._workers.submit(work.run, lambda _: self._finish(work), lambda error: self._fail(work, error))

    def _finish(self, work: FlushWork) -> None:
        self._running = False
        work.release()
        self._done(work)
        if self._requested:
            self._requested = False
            self.request()

    def _fail(self, work: FlushWork, error: Exception) -> None:
        # Never retried: after a failed fsync the kernel may have dropped the dirty pages, and a second one would lie.
        self._running = False
        work.release()
        self._failed(error)
