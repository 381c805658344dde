"""The embedded MetadataStore: everything in memory, made durable by a local log with snapshots (`files`).

Commits are checked and numbered in the order in which they are requested. One writer at a time appends all that are
waiting as one entry and fsyncs it in a worker thread (group commit); then they become visible, watches are notified,
and the commits return.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from broker.metadata.entries import Commit, apply
from broker.metadata.files import MetadataFiles, NoRoomError
from broker.metadata.store import Change, MetadataStoreError, VersionConflictError, Versioned
from storage.files import FileSystem
from storage.workers import Workers

logger = structlog.get_logger(__name__)

SNAPSHOT_AFTER_BYTES = 1 << 20

_Group: TypeAlias = list[tuple[Commit, asyncio.Future[int]]]


@dataclass(frozen=True, slots=True, eq=False)
class _Watch:
    prefix: str
    callback: Callable[[Change], None]


class LocalMetadataStore:
    """MetadataStore of one node over `metadata.log` in `folder` (the first log dir, locked by the caller).

    Opened with `await LocalMetadataStore.open(...)`, which raises CorruptMetadataError and OSError.

    Attributes:
        on_no_room: called with the error when a commit finds no room.
        on_failure: called once, with the reason, when no commit can be made durable any more.
    """

    def __init__(
        self,
        files: MetadataFiles,
        workers: Workers,
        revision: int,
        state: dict[str, Versioned],
        *,
        snapshot_after_bytes: int,
    ) -> None:
        self._files = files
        self._workers = workers
        self._snapshot_after_bytes = snapshot_after_bytes
        self._snapshot_at_bytes = snapshot_after_bytes
        self._revision = revision
        self._last_assigned = revision
        self._state = state
        self._waiting: _Group = []
        self._undurable: dict[str, int] = {}
        self._writer: asyncio.Task[None] | None = None
        self._watches: list[_Watch] = []
        self._failure: str | None = None
        self.on_no_room: Callable[[OSError], None] = lambda _: None
        self.on_failure: Callable[[str], None] = lambda reason: logger.error("metadata store failed", error=reason)

    @classmethod
    async def open(
        cls, fs: FileSystem, folder: str, workers: Workers, snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES
    ) -> LocalMetadataStore:
        """Recover the store; the log is rewritten as a snapshot once it has `snapshot_after_bytes`."""
        files = MetadataFiles(fs, folder)
        revision, state = await workers.call(files.load)
        return cls(files, workers, revision, state, snapshot_after_bytes=snapshot_after_bytes)

    @property
    def revision(self) -> int:
        return self._revision

    async def get(self, key: str) -> Versioned | None:
        return self._state.get(key)

    async def list(self, prefix: str) -> dict[str, Versioned]:
        return {key: self._state[key] for key in sorted(self._state) if key.startswith(prefix)}

    async def commit(
        self, expected: Mapping[str, int], puts: Mapping[str, bytes], deletes: Collection[str] = ()
    ) -> int:
        self._check_usable()
        for key, version in expected.items():
            if self._newest_version(key) != version:
                await self._settled()
                await asyncio.sleep(0)  # so that the watches see the commit that won
                raise VersionConflictError(key, version, self._newest_version(key))
        self._last_assigned += 1
        commit = Commit(self._last_assigned, dict(puts), tuple(deletes))
        self._undurable.update(dict.fromkeys(commit.deletes, 0))
        self._undurable.update(dict.fromkeys(commit.puts, commit.revision))
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((commit, done))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_waiting(), name="metadata-log")
        return await done

    def watch(self, prefix: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        watch = _Watch(prefix, callback)
        self._watches.append(watch)
        return lambda: self._watches.remove(watch)

    async def close(self) -> None:
        """Wait for the commits under way, then refuse all others."""
        await self._settled()
        self._failure = self._failure or "the metadata store is closed"
        await self._workers.call(self._files.close)

    def _newest_version(self, key: str) -> int:
        if key in self._undurable:
            return self._undurable[key]
        versioned = self._state.get(key)
        return 0 if versioned is None else versioned.version

    async def _settled(self) -> None:
        if self._writer is not None:
            await asyncio.wait([self._writer])

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise MetadataStoreError(self._failure)

    async def _write_waiting(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                await self._write(group)
        finally:
            self._writer = None

    async def _write(self, group: _Group) -> None:
        try:
            self._check_usable()
            await self._workers.call(lambda: self._files.append([commit for commit, _ in group]))
        except NoRoomError as error:
            self.on_no_room(error)
            self._refuse(group, error)
            return
        except (OSError, MetadataStoreError) as error:
            self._fail(group, error)
            return
        except Exception as error:  # waiting callers must be answered, whatever happened
            logger.exception("unexpected error while metadata was written")
            self._fail(group, error)
            return
        for commit, done in group:
            self._publish(commit)
            if not done.done():
                done.set_result(commit.revision)
        if self._files.log_bytes >= self._snapshot_at_bytes:
            await self._write_snapshot()

    def _publish(self, commit: Commit) -> None:
        changed = apply(self._state, commit)
        self._revision = commit.revision
        if commit.revision == self._last_assigned:
            self._undurable.clear()
        for watch in tuple(self._watches):
            keys = {key: versioned for key, versioned in changed.items() if key.startswith(watch.prefix)}
            if keys:
                # Scheduled before those who wait for this commit wake up; an error goes to the loop's handler.
                asyncio.get_running_loop().call_soon(watch.callback, Change(commit.revision, keys))

    async def _write_snapshot(self) -> None:
        revision, state = self._revision, dict(self._state)
        try:
            await self._workers.call(lambda: self._files.write_snapshot(revision, state))
        except OSError as error:  # the log still has everything
            logger.warning("metadata snapshot not written", error=str(error))
            self._snapshot_at_bytes = self._files.log_bytes + self._snapshot_after_bytes
            return
        try:
            await self._workers.call(self._files.empty_log)
        except OSError as error:
            self._give_up(f"emptying the metadata log failed: {error}")
        self._snapshot_at_bytes = self._snapshot_after_bytes

    def _refuse(self, group: _Group, error: OSError) -> None:
        """Fail a group of which nothing is in the log, and the commits queued after it."""
        group, self._waiting = group + self._waiting, []
        self._last_assigned = self._revision
        self._undurable.clear()
        for _, done in group:
            if not done.done():
                done.set_exception(MetadataStoreError(f"there is no room for the metadata log: {error}"))

    def _fail(self, group: _Group, error: Exception) -> None:
        # After a failed write or fsync it is unknown what reached the disk, so nothing may follow it in this process.
        reason = self._give_up(f"writing the metadata log failed: {error}")
        for _, done in group:
            if not done.done():
                done.set_exception(MetadataStoreError(reason))

    def _give_up(self, reason: str) -> str:
        """Refuse every later commit with the first such reason, which is returned."""
        if self._failure is None:
            self._failure = reason
            self.on_failure(reason)
        return self._failure
