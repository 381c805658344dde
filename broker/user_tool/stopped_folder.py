"""The users in the folders of a broker that is stopped: its metadata log is read, and written as its controller does.

Nobody else can open the folders meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack

from broker.cluster.earlier_entries import CorruptMetadataError
from broker.config.broker_config import BrokerConfig
from broker.membership.standalone import StandaloneMetadata
from broker.metadata_opening import open_metadata
from broker.node_state import Base, Seams, new_base
from broker.user_tool.users import Users, UserToolError
from controller.quorum.survey import FOLDER_NAME, OLD_BOOTSTRAP
from controller.scram import Alteration, decide
from protocol.errors import KafkaError
from storage.files import OsFileSystem
from storage.folders.log_dirs import LogDirError, LogDirs
from storage.workers import ThreadWorkers
from timing.clock import SystemClock

NEW = (
    "{} has no metadata yet: format it with its first users, odradek format --cluster-id ID --add-scram "
    "'SCRAM-SHA-512=[name=...,password=...]', or start the broker once"
)


def alter(config: BrokerConfig, alterations: Sequence[Alteration]) -> Users:
    """Do this, and return who there is then: the iterations of each mechanism, by user. Raises UserToolError."""
    try:
        return asyncio.run(_alter(config, alterations))
    except (LogDirError, CorruptMetadataError, KafkaError, OSError) as error:
        raise UserToolError(str(error)) from error


async def _alter(config: BrokerConfig, alterations: Sequence[Alteration]) -> Users:
    if config.is_in_cluster:
        raise UserToolError("the users of a cluster are with its controllers: name a broker, --bootstrap-server")
    workers = ThreadWorkers(asyncio.get_running_loop())
    clock = SystemClock(asyncio.get_running_loop())
    base = new_base(config, Seams(clock, OsFileSystem(), workers, random.SystemRandom()))
    async with AsyncExitStack() as undo:
        undo.callback(workers.close)
        dirs = _locked(base)
        undo.callback(dirs.unlock)
        folder = dirs.dirs[0].path
        if not any(OsFileSystem().exists(f"{folder}/{name}") for name in (FOLDER_NAME, OLD_BOOTSTRAP)):
            raise UserToolError(NEW.format(folder))
        metadata = await open_metadata(base, dirs, undo)
        assert isinstance(metadata, StandaloneMetadata)  # it is in no cluster
        if not metadata.cache.image.features:
            raise UserToolError(NEW.format(folder))
        if alterations:
            await _write(metadata, dirs, alterations)
        return _users(metadata)


def _locked(base: Base) -> LogDirs:
    config = base.current.config
    for path in config.log_dirs:
        if not OsFileSystem().exists(f"{path}/meta.properties"):
            raise UserToolError(NEW.format(path))
    return LogDirs.open(
        base.seams.fs,
        list(config.log_dirs),
        node_id=base.node_id,
        new_id=base.new_id,
        now_ms=base.seams.clock.wall_ms(),
        cluster_id=config.optional_string("odradek.cluster.id"),
    )


async def _write(metadata: StandaloneMetadata, dirs: LogDirs, alterations: Sequence[Alteration]) -> None:
    """Until all is written, a stop counts as unclean, as the log is being changed."""
    first = dirs.dirs[0]
    unclean = [each.path for each in dirs.dirs if not each.clean]
    dirs.forget_clean_shutdown(first)
    await metadata.lead_stopped()
    try:
        for alteration in alterations:
            for _, error in await metadata.controller.submit(lambda image, one=alteration: decide(image, [one])):  # type: ignore[misc]
                if error is not None:
                    raise UserToolError(error.message)
    finally:
        await metadata.controller.close()
        await metadata.log.close()
        if first.clean:
            dirs.mark_clean(unclean, first.closed_in)


def _users(metadata: StandaloneMetadata) -> Users:
    """Before the first start, too: those with which the log will begin."""
    found: Users = {}
    for (user, mechanism), record in metadata.cache.image.scram.items():
        found.setdefault(user, {})[int(mechanism)] = record.iterations
    return found
