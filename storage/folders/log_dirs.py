"""The folders of `log.dirs`: locked for this process, and marked as this node's."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import structlog

from protocol import uuids
from storage.files import FileSystem, Identity, read_file, write_file_atomically
from storage.folders import log_names, meta_properties
from storage.folders.meta_properties import MetaProperties, MetaPropertiesError

logger = structlog.get_logger(__name__)

T = TypeVar("T")

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"

UNKNOWN_EPOCH = -1
"""The broker epoch of a node that was never registered, or of one that did not say its own."""


class LogDirError(Exception):
    """A log folder cannot be used; the message says which one and why."""


@dataclass(slots=True)
class LogDir:
    """One folder of `log.dirs`.

    Attributes:
        directory_id: empty if the folder failed before it could be read.
        clean: the last process that used it stopped cleanly.
        closed_in: the broker epoch of that process.
        failed: its device returned an error.
        cordoned: it gets no new logs, unless every other does not either (KIP-1066).
        identity: of the folder and of its lock file, as they were opened.
        is_new: nothing had ever been kept there before this start.
    """

    path: str
    directory_id: str
    clean: bool
    closed_in: int = UNKNOWN_EPOCH
    failed: bool = False
    cordoned: bool = False
    identity: tuple[Identity, Identity] | None = None
    is_new: bool = False

    def require_unchanged(self, fs: FileSystem) -> None:
        """Raises OSError, a device failure, if the folder or its lock file is gone or is another than was opened."""
        try:
            same = _identity(fs, self.path) == self.identity
        except FileNotFoundError as error:
            raise OSError(errno.ENODEV, f"{error.filename} is gone, though the broker is using it") from error
        if not same:
            raise OSError(errno.ENODEV, f"{self.path} is not the folder that the broker opened")


class LogDirs:
    """The locked folders of this node.

    Attributes:
        cluster_id: 22 characters.
        node_id: `node.id`.
        dirs: in the order of `log.dirs`.
    """

    def __init__(
        self, fs: FileSystem, cluster_id: str, node_id: int, dirs: list[LogDir], unlock: list[Callable[[], None]]
    ) -> None:
        self._fs = fs
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.dirs = dirs
        self._unlock = unlock

    def cordon(self, paths: Collection[str]) -> None:
        """Let the folders at these absolute paths, and no others, get no new logs."""
        for log_dir in self.dirs:
            log_dir.cordoned = os.path.abspath(log_dir.path) in paths

    @property
    def cordoned(self) -> list[LogDir]:
        """The folders that get no new logs."""
        return [log_dir for log_dir in self.dirs if log_dir.cordoned]

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        paths: list[str],
        *,
        node_id: int,
        new_id: Callable[[], UUID],
        now_ms: int,
        cluster_id: str | None = None,
        unknown_cluster: str | None = None,
        held: LogDirs | None = None,
        once_locked: Callable[[], None] = lambda: None,
    ) -> LogDirs:
        """Make, lock and check the folders; new ones get a `meta.properties`.

        Locks that `held` still has are shared with it: for folders whose contents were exchanged. `once_locked` is
        called before anything is read.

        Without `cluster_id` that of the folders is taken, or else a new one made; with `unknown_cluster`, which says
        what to do, that is an error. A folder with an I/O error counts as failed, unless it is the first, which holds
        the metadata. Raises LogDirError if the first cannot be used, or if any is in use by another broker, belongs to
        another node or cluster, or has an invalid `meta.properties`.
        """
        unlock: list[Callable[[], None]] = []
        dirs = [LogDir(path, "", clean=False) for path in paths]
        try:
            each_usable(dirs, lambda log_dir: _make_folder(fs, log_dir.path), _fail)
            _require_different(fs, dirs)
            if held is not None and held._unlock:
                unlock = held._unlock
            else:
                each_usable(dirs, lambda log_dir: unlock.append(_lock(fs, log_dir.path)), _fail)
            once_locked()
            found = each_usable(dirs, lambda log_dir: meta_properties.read(fs, log_dir.path), _fail)
            known = {log_dir.path: properties for log_dir, properties in found}
            common = _common_cluster(known, cluster_id, node_id)
            if common is None and unknown_cluster is not None:
                raise LogDirError(unknown_cluster)
            common = common or uuids.to_text(new_id())

            def prepare(log_dir: LogDir) -> None:
                new = MetaProperties(common, node_id, uuids.to_text(new_id()))
                _prepare(fs, log_dir, known[log_dir.path], new, now_ms)

            each_usable(dirs, prepare, _fail)
        except (OSError, MetaPropertiesError) as error:
            _release(unlock)
            raise LogDirError(f"Log directories {', '.join(paths)} cannot be used: {error}") from error
        except LogDirError:
            _release(unlock)
            raise
        return cls(fs, common, node_id, dirs, unlock)

    def require_no_partitions(self, reason: str) -> None:
        """Raises LogDirError, with the reason, if a folder of a partition is there. Blocking; raises OSError."""
        for log_dir, names in each_usable(self.dirs, lambda usable: sorted(self._fs.listdir(usable.path)), _fail):
            for name in names:
                partition = log_names.parse(name)
                if partition is not None and partition.topic != "__cluster_metadata":
                    raise LogDirError(f"{log_dir.path} has the partition {name}, but {reason}")

    def forget_clean_shutdown(self, log_dir: LogDir) -> None:
        """Make every stop count as unclean for this folder until `mark_clean`. Raises OSError."""
        if log_dir.clean:
            self._fs.unlink(f"{log_dir.path}/{CLEAN_SHUTDOWN_FILE}")
            self._fs.fsync_dir(log_dir.path)

    def mark_clean(self, spoiled: Collection[str], broker_epoch: int) -> None:
        """Mark all folders except the `spoiled` ones as cleanly shut down: the last write of a stop. Raises OSError.

        By the epoch the next start, of Kafka too, shows that nothing was lost since it was registered.
        """
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
        for log_dir in self.dirs:
            if log_dir.failed or log_dir.path in spoiled:
                continue
            log_dir.require_unchanged(self._fs)
            write_file_atomically(self._fs, f"{log_dir.path}/{CLEAN_SHUTDOWN_FILE}", content)

    def unlock(self) -> None:
        """Unlock the folders for another process."""
        _release(self._unlock)


def each_usable(
    dirs: Sequence[LogDir], step: Callable[[LogDir], T], fail: Callable[[LogDir, OSError], None]
) -> list[tuple[LogDir, T]]:
    """Each folder that has not failed, with what the step returns for it.

    A folder for which it raises OSError is left out, and `fail` is called; but the error of the first one is raised.
    """
    results = []
    for log_dir in dirs:
        if log_dir.failed:
            continue
        try:
            results.append((log_dir, step(log_dir)))
        except OSError as error:
            if log_dir is dirs[0]:
                raise
            fail(log_dir, error)
    return results


def _identity(fs: FileSystem, path: str) -> tuple[Identity, Identity]:
    return fs.identity(path), fs.identity(f"{path}/{LOCK_FILE}")


def _fail(log_dir: LogDir, error: OSError) -> None:
    log_dir.failed = True
    logger.error("log directory offline", path=log_dir.path, error=str(error))


def _release(unlock: list[Callable[[], None]]) -> None:
    while unlock:
        unlock.pop()()


def _require_different(fs: FileSystem, dirs: Sequence[LogDir]) -> None:
    """Raises LogDirError if two paths of `log.dirs` lead to the same folder, perhaps by a link."""
    seen: dict[tuple[int, int], str] = {}
    for log_dir, identity in each_usable(dirs, lambda log_dir: fs.identity(log_dir.path), _fail):
        other = seen.setdefault(identity, log_dir.path)
        if other != log_dir.path or [log_dir.path for log_dir in dirs].count(other) > 1:
            raise LogDirError(f"log.dirs has the same folder twice: {other} and {log_dir.path}.")


def _lock(fs: FileSystem, path: str) -> Callable[[], None]:
    release = fs.lock(f"{path}/{LOCK_FILE}")
    if release is None:
        raise LogDirError(
            f"Failed to acquire lock on file {LOCK_FILE} in {path}. A broker in another process is using this "
            "directory."
        )
    return release


def _make_folder(fs: FileSystem, path: str) -> None:
    """Make a folder and its parents, so that they survive a power failure."""
    if fs.is_dir(path):
        return
    if fs.exists(path):
        raise NotADirectoryError(errno.ENOTDIR, f"{path} is a file, and log.dirs names folders.")
    above = path.rstrip("/").rpartition("/")[0]
    if above:
        _make_folder(fs, above)
    fs.mkdir(path)
    fs.fsync_dir(above or ("/" if path.startswith("/") else "."))


def _common_cluster(
    properties: Mapping[str, MetaProperties | None], cluster_id: str | None, node_id: int
) -> str | None:
    for path, known in properties.items():
        if known is None:
            continue
        if known.node_id != node_id:
            raise LogDirError(f"{path} belongs to node {known.node_id}, but this is node {node_id} (node.id).")
        if cluster_id is not None and known.cluster_id != cluster_id:
            raise LogDirError(f"{path} belongs to cluster {known.cluster_id}, not to {cluster_id}.")
        cluster_id = known.cluster_id
    return cluster_id


def _prepare(fs: FileSystem, log_dir: LogDir, known: MetaProperties | None, new: MetaProperties, now_ms: int) -> None:
    """Note what is known of the folder; one that has no `meta.properties`, or one without an id, gets a new one."""
    path = log_dir.path
    log_dir.identity = _identity(fs, path)
    if known is None or known.directory_id is None:
        meta_properties.write(fs, path, new, now_ms)
        logger.debug("log directory formatted", path=path, cluster_id=new.cluster_id, directory_id=new.directory_id)
        log_dir.is_new, known = known is None, new
    log_dir.directory_id = known.directory_id or ""
    mark = f"{path}/{CLEAN_SHUTDOWN_FILE}"
    log_dir.clean = fs.exists(mark)
    if log_dir.clean:
        log_dir.closed_in = _broker_epoch(read_file(fs, mark))


def _broker_epoch(clean_shutdown: bytes) -> int:
    """The broker epoch in a clean-shutdown file, unless that is damaged."""
    try:
        return int(json.loads(clean_shutdown)["brokerEpoch"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return UNKNOWN_EPOCH
