"""Back to an earlier state: marks and a reset between tests, and snapshots of all that there is.

A mark names what was there. It is all in the client's hands, so any number of clients may have marks of their own. A
reset deletes what came later; faults and histories end, and the clock is reset. Snapshots are taken and restored while
clients are connected.
"""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from broker.faults.power_failure import PowerFailureFiles
from broker.node import Node
from broker.node_start import restart_parts
from broker.testkit.control.endpoint import ControlError, Endpoints, Kind, Parameter, Values
from broker.testkit.control.group_kinds import groups_with_configs, remove_configs
from broker.testkit.control.history_recorder import histories_of
from broker.testkit.control.schema_marks import marked_schemas, remove_schemas
from broker.testkit.control.schemas import forget as forget_schemas
from broker.testkit.control.transactions import forget
from broker.testkit.inspection import own_transactions
from broker.testkit.inspection.groups import list_groups
from controller import delete_topics
from controller.decision import NoQuota
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.on_demand import remove_group
from coordinator.runtime.outcome import Outcome
from metadata.topic_names import is_internal
from storage.files import FileSystem
from storage.folders.log_dirs import LogDirError
from storage.folders.strays import remove_folder
from storage.log.unified_log import UnifiedLog
from storage.state.capture import FolderCapture, capture, discard, files_below, finish
from storage.state.exchange import FolderExchange
from storage.state.manifest import FILE_NAME, SnapshotError, StateManifest, describe, read, require_apart, usable
from timing.adjustable_clock import AdjustableClock

ENDPOINTS = Endpoints()

PATH = Parameter("path", Kind.STRING, "the folder of the snapshot, an absolute path where the broker runs")


TIMEOUT = timedelta(seconds=30)
KINDS = ("topics", "groups", "transactional_ids", "group_configs", "schemas", "schema_settings")


@ENDPOINTS(
    "GET /mark", "A mark: topics, groups, transactional ids, groups' configurations and schemas as they are now."
)
async def _mark(node: Node, _values: Values) -> dict[str, Any]:
    topics = [str(topic.id) for topic in node.cluster.cache.image.topics if not is_internal(topic.name)]
    return {
        "mark": {
            "topics": topics,
            "groups": await _groups(node),
            "transactional_ids": await _ids(node),
            "group_configs": groups_with_configs(node),
            **await marked_schemas(node),
        }
    }


async def _groups(node: Node) -> list[str]:
    await node.coordinators.groups.runtime.loaded()
    return [group.group_id for group in await list_groups(node.coordinators.groups)]


async def _ids(node: Node) -> list[str]:
    await node.coordinators.transactions.runtime.loaded()
    return [transaction.transactional_id for transaction in await own_transactions(node.coordinators.transactions)]


@ENDPOINTS(
    "POST /reset",
    "Delete what is not in the mark, whoever still uses it; remove faults, end histories, and reset the clock.",
    Parameter(
        "mark",
        Kind.OBJECT,
        "What stays, as GET /control/mark has it: topics (their ids), groups, transactional_ids, "
        "group_configs (groups), schemas and schema_settings. If it is missing, nothing stays.",
    ),
)
async def _reset(node: Node, values: Values) -> dict[str, Any]:
    """Transactions first, as their end is written to the topics, and commits offsets of groups."""
    kept = _kept(values.get("mark", {}))
    if node.faults is not None:
        node.faults.clear()
    histories_of(node).end_all()
    if isinstance(node.clock, AdjustableClock):
        await node.clock.reset()
    await node.cluster.auto_topics.stop()
    ids = [
        transactional_id for transactional_id in await _ids(node) if transactional_id not in kept["transactional_ids"]
    ]
    await asyncio.gather(*(forget(node, transactional_id) for transactional_id in ids))
    groups = [group for group in await _groups(node) if group not in kept["groups"]]
    await asyncio.gather(*(_remove_group(node, group) for group in groups))
    await remove_configs(node, kept["group_configs"])
    topics = await _delete_topics(node, kept["topics"])
    await remove_schemas(node, kept["topics"], kept["schemas"], kept["schema_settings"])
    return {"topics": topics, "groups": groups, "transactional_ids": ids}


def _kept(mark: dict[str, Any]) -> dict[str, frozenset[str]]:
    """What a mark names, by kind. Raises ControlError."""
    for name, value in mark.items():
        if name not in KINDS:
            raise ControlError(f"mark: {name} is not known: expected {', '.join(KINDS)}", parameter="mark")
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ControlError(f"mark: {name} = {value!r}: expected a list of texts", parameter="mark")
    return {kind: frozenset(mark.get(kind, ())) for kind in KINDS}


async def _remove_group(node: Node, group_id: str) -> None:
    await node.coordinators.groups.write(group_id, _removing(group_id))
    node.local.share.unload(group_id)  # its consumers may still have share sessions


def _removing(group_id: str) -> Callable[[GroupCoordinatorShard], Outcome[bool]]:
    return lambda state: remove_group(state, group_id)


async def _delete_topics(node: Node, kept: frozenset[str]) -> list[str]:
    """Delete all topics but those with these ids, and the internal ones; return their names."""
    topics = node.cluster.cache.image.topics
    made = {topic.id: topic.name for topic in topics if str(topic.id) not in kept and not is_internal(topic.name)}
    if not made:
        return []
    states = tuple(DeleteTopicState(name=None, topic_id=topic_id) for topic_id in made)
    request = DeleteTopicsRequest(topics=states, timeout=TIMEOUT)
    response = await node.controller.submit(
        lambda image: delete_topics.decide(image, request, NoQuota()), request=request
    )
    deleted: list[UUID | None] = [answer.topic_id for answer in response.responses if answer.error_code.name == "none"]
    return sorted(name for topic_id, name in made.items() if topic_id in deleted)


logger = structlog.get_logger(__name__)


@ENDPOINTS("POST /snapshots", "Take a snapshot of the whole state, in a new folder.", PATH)
async def _take(node: Node, values: Values) -> dict[str, Any]:
    return await take(node, values.get("path"))


async def take(node: Node, wanted: str | None, *, must_be_new: bool = False) -> dict[str, Any]:
    """Take a snapshot of this moment. What follows while its files are copied is not in it.

    The folder may be there and be empty, unless it `must_be_new`.
    Raises ControlError, and OSError if it cannot be written.
    """
    workers, fs = node.base.seams.workers, node.base.seams.fs
    log = _own_log(node)
    async with node.changing:  # from here on, or another snapshot might take the same folder for its own
        path = await workers.call(partial(_new_folder, fs, wanted, node.local.config.log_dirs, must_be_new))
        clock = node.local.clock
        began_ms = clock.machine.monotonic_ms()
        try:
            captures = capture(node.replicas.logs, log, node.metadata.broker_epoch, node.base.new_id())
            took_ms = clock.machine.monotonic_ms() - began_ms
            about = partial(StateManifest, node.node_id, node.cluster.id, clock.wall_ms())
            manifest = await workers.call(partial(_write, fs, captures, path, about))
        except BaseException:
            await workers.call(partial(_remove_if_there, fs, path))
            raise
    logger.info("snapshot taken", path=path, bytes=manifest.size, held_up_ms=round(took_ms, 1))
    return _described(path, manifest)


def _own_log(node: Node) -> UnifiedLog:
    """The metadata log of a node that is alone in its cluster. Raises ControlError for another."""
    log = node.metadata.log
    if log is None or len(node.cluster.cache.image.cluster.brokers) > 1:
        raise ControlError("the node is not alone in its cluster: its folders have a part of the data only", status=409)
    return log.log


def _new_folder(fs: FileSystem, path: str | None, roots: Sequence[str], must_be_new: bool) -> str:
    if path is None:
        _require_apart(f"{tempfile.gettempdir()}/odradek-snapshot", roots)
        return tempfile.mkdtemp(prefix="odradek-snapshot-")
    _require_absolute(path)
    _require_apart(path, roots)
    try:
        if fs.is_link(path):  # whoever made it would say where the data goes
            raise ControlError(f"path = {path!r} is a symbolic link", parameter="path", status=409)
        if fs.exists(path) and (must_be_new or not fs.is_dir(path) or fs.listdir(path)):
            raise ControlError(f"path = {path!r} exists already", parameter="path", status=409)
        fs.mkdir(path)
    except OSError as error:
        raise ControlError(f"path = {path!r} cannot be made: {error.strerror}", parameter="path") from error
    return path


def _require_absolute(path: str) -> None:
    if not os.path.isabs(path):
        raise ControlError(f"path = {path!r}: expected an absolute path", parameter="path")


def _require_apart(path: str, roots: Sequence[str]) -> None:
    try:
        require_apart(path, roots)
    except (SnapshotError, ValueError) as error:  # the latter for a character that no path has
        raise ControlError(str(error), parameter="path") from error


def _write(fs: FileSystem, captures: list[FolderCapture], path: str, about: Any) -> StateManifest:
    """Finish what was captured, and make the snapshot of it; blocking."""
    try:
        finish(fs, captures)
        manifest: StateManifest = about([describe(fs, captured) for captured in captures])
        for number, one in enumerate(captures):
            _move(fs, one, f"{path}/{number}")
        manifest.write(fs, path)
        _keep_in_a_power_failure(fs, path)
    except BaseException:
        discard(fs, captures)
        raise
    return manifest


def _move(fs: FileSystem, captured: FolderCapture, target: str) -> None:
    """Move a folder, by copies if it is to lie on another volume."""
    try:
        fs.rename(captured.staging, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        for name in files_below(fs, captured.staging):
            fs.mkdir(f"{target}/{name}".rpartition("/")[0])
            source = f"{captured.staging}/{name}"
            fs.copy_file(source, f"{target}/{name}", fs.size(source))
        remove_folder(fs, captured.staging)


@ENDPOINTS(
    "POST /snapshots/restore",
    "Go back to a snapshot; clients stay connected.",
    Parameter("path", Kind.STRING, PATH.doc, required=True),
)
async def _restore(node: Node, values: Values) -> dict[str, Any]:
    """Go back to a snapshot. Connections stay; requests that come meanwhile wait, those that waited get an error.

    What was there before is removed afterwards, and until then no other snapshot is taken or restored.
    """
    _own_log(node)
    path, workers = values["path"], node.base.seams.workers
    exchange = FolderExchange(node.base.seams.fs, list(node.local.config.log_dirs))
    await node.changing.acquire()
    try:
        manifest = await _exchange(node, exchange, path)
    except BaseException:
        try:
            await workers.call(exchange.discard)
        finally:
            node.changing.release()
        raise

    def not_removed(error: Exception) -> None:
        logger.error("what was there before is not removed; the next start does that", error=str(error))
        node.changing.release()

    workers.submit(exchange.discard, lambda _: node.changing.release(), not_removed)
    return _described(path, manifest)


async def _exchange(node: Node, exchange: FolderExchange, path: str) -> StateManifest:
    workers, fs, roots = node.base.seams.workers, node.base.seams.fs, list(node.local.config.log_dirs)
    began_ms = node.local.clock.machine.monotonic_ms()
    manifest = await workers.call(partial(_usable, node, path, roots))
    await workers.call(partial(exchange.prepare, path, manifest))
    try:
        await restart_parts(node, exchange.swap, exchange.undo)
    except LogDirError as error:
        raise ControlError(
            f"the snapshot {path} is damaged, and nothing was changed: {error}", parameter="path"
        ) from error
    histories_of(node).restored()
    forget_schemas(node)
    await node.coordinators.groups.runtime.loaded()
    await node.coordinators.transactions.runtime.loaded()
    await workers.call(exchange.confirm)
    for root in roots:
        await workers.call(partial(_keep_in_a_power_failure, fs, root))
    took_ms = node.local.clock.machine.monotonic_ms() - began_ms
    logger.info("snapshot restored", path=path, took_ms=round(took_ms, 1))
    return manifest


def _usable(node: Node, path: str, roots: Sequence[str]) -> StateManifest:
    """The manifest of a snapshot that can be restored here. Blocking. Raises ControlError."""
    _require_absolute(path)
    cluster_id = node.local.config.optional_string("odradek.cluster.id")
    try:
        return usable(node.base.seams.fs, path, node.node_id, roots, cluster_id)
    except SnapshotError as error:
        raise ControlError(str(error), parameter="path") from error


@ENDPOINTS("DELETE /snapshots", "Remove a snapshot.", Parameter("path", Kind.STRING, PATH.doc, required=True))
async def _delete(node: Node, values: Values) -> None:
    """Remove a snapshot; nothing else is removed."""
    fs, path = node.base.seams.fs, values["path"]
    _require_absolute(path)

    def remove() -> None:
        _require_apart(path, node.local.config.log_dirs)
        try:
            read(fs, path)
        except SnapshotError as error:
            raise ControlError(str(error), parameter="path", status=404) from error
        fs.unlink(f"{path}/{FILE_NAME}")
        remove_folder(fs, path)

    await node.base.seams.workers.call(remove)


def _keep_in_a_power_failure(fs: FileSystem, folder: str) -> None:
    """Have a simulated power failure leave the folder as it is now."""
    if isinstance(fs, PowerFailureFiles):
        fs.assume_synced(folder)


def _remove_if_there(fs: FileSystem, path: str) -> None:
    if fs.exists(path):
        remove_folder(fs, path)


def _described(path: str, manifest: StateManifest) -> dict[str, Any]:
    return {"path": path, "bytes": manifest.size, "taken_ms": manifest.taken_ms, "cluster_id": manifest.cluster_id}
