"""The folders of `log.dirs` at the start of a node: locked, and what was left undone in them undone."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from functools import partial

from broker.metadata_opening import NO_CLUSTER_ID
from broker.node_state import Base
from storage.folders import meta_properties
from storage.folders.log_dirs import LogDirError, LogDirs
from storage.state.exchange import FolderExchange
from storage.state.manifest import SnapshotError, usable


def lock_folders(base: Base, undo: AsyncExitStack, held: LogDirs | None = None) -> LogDirs:
    """Lock the folders of `log.dirs` and format new ones; those that are `held` are locked already.

    Raises LogDirError.
    """
    config = base.current.config
    paths = list(config.log_dirs)
    dirs = LogDirs.open(
        base.seams.fs,
        paths,
        node_id=base.node_id,
        new_id=base.new_id,
        now_ms=base.seams.clock.wall_ms(),
        cluster_id=config.optional_string("odradek.cluster.id"),
        unknown_cluster=NO_CLUSTER_ID if config.is_in_cluster else None,
        held=held,
        once_locked=(lambda: None) if held else partial(_restore_folders, base, paths),
    )
    undo.callback(dirs.unlock)
    return dirs


def _restore_folders(base: Base, paths: list[str]) -> None:
    """Undo a restore that was interrupted; fill folders that are new with `odradek.snapshot`. Raises LogDirError."""
    config, fs = base.current.config, base.seams.fs
    exchange = FolderExchange(fs, paths)
    exchange.undo_unfinished()
    snapshot = config.optional_string("odradek.snapshot")
    if snapshot is None or any(fs.exists(f"{path}/{meta_properties.FILE_NAME}") for path in paths):
        return
    try:
        cluster_id = config.optional_string("odradek.cluster.id")
        manifest = usable(fs, os.path.abspath(snapshot), base.node_id, paths, cluster_id)
    except SnapshotError as error:
        raise LogDirError(f"odradek.snapshot: {error}") from error
    exchange.prepare(os.path.abspath(snapshot), manifest)
    exchange.swap()
    exchange.confirm()
    exchange.discard()
