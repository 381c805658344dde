"""The end of the process, as a crash or a power failure brings it, and the syncs that some faults strike after."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import structlog

from broker.coordinators.share_coordinator import coordinator_key
from broker.faults.power_failure import PowerFailureFiles
from broker.faults.spec import Then
from broker.replication.partition import Role
from metadata.topic_names import (
    GROUP_METADATA_TOPIC_NAME,
    SHARE_GROUP_STATE_TOPIC_NAME,
    TRANSACTION_STATE_TOPIC_NAME,
)
from protocol.coordinator_records.share_records import SharePartitionKey
from storage.files import FileSystem

if TYPE_CHECKING:
    from broker.faults.matching import Facts
    from broker.replication.partition import Partition
    from broker.request_context import RequestContext
    from protocol.api.row import Api
    from timing.clock import Clock


logger = structlog.get_logger(__name__)


class Crash:
    """Ends this process at once: it does nothing more.

    After a crash its files stay as the kernel has them. After a power failure they have only what was synced.
    """

    def __init__(self, fs: FileSystem, log_dirs: Sequence[str]) -> None:
        self._fs = fs
        self._log_dirs = list(log_dirs)

    def now(self, then: Then) -> None:
        logger.warning("a test ends this process", how=then.value)
        if then is Then.POWER_FAILURE:
            self._files().fail(self._log_dirs)
        os.kill(os.getpid(), signal.SIGKILL)

    def at_sync(self, folders: Iterable[str], then: Then) -> None:
        """Do as `now`, before a file in one of these folders is synced next."""
        starts = tuple(f"{folder}/" for folder in folders)

        def before_sync(path: str) -> None:
            if path.startswith(starts):
                self.now(then)

        self._files().on_sync = before_sync

    def _files(self) -> PowerFailureFiles:
        if not isinstance(self._fs, PowerFailureFiles):
            raise RuntimeError("a broker without the control interface does not know what is synced")
        return self._fs


LOOK_MS = 1.0
"""How often it is looked whether a flush is over. Only requests that a fault has struck wait for that."""


def written(api: Api, ctx: RequestContext, facts: Facts) -> Iterator[Partition]:
    """The partitions to whose logs a request appends."""
    keys: list[tuple[str | None, int | None]] = []
    match api.writes:
        case "topic":
            keys = facts.partitions or []
        case "group":
            groups = ctx.coordinators.groups
            keys = [(GROUP_METADATA_TOPIC_NAME, groups.partition_for(group)) for group in facts.groups]
        case "transaction":
            transactions = ctx.coordinators.transactions
            names = facts.transactional_ids
            keys = [(TRANSACTION_STATE_TOPIC_NAME, transactions.partition_for(name)) for name in names]
        case "share":
            keys = [(SHARE_GROUP_STATE_TOPIC_NAME, index) for index in _share_states(ctx, facts)]
    for topic, index in keys:
        found = None if topic is None or index is None else ctx.replicas.get(topic, index)
        if found is not None:
            yield found


def _share_states(ctx: RequestContext, facts: Facts) -> set[int]:
    """The partitions of the share coordinator with the states of these groups' partitions."""
    topics = [(ctx.image.topics.get(name), index) for name, index in facts.partitions or () if name is not None]
    keys = [
        SharePartitionKey(group, topic.id, index)
        for group in facts.groups
        for topic, index in topics
        if topic is not None and index is not None
    ]
    return {ctx.coordinators.share.partition_for(coordinator_key(key)) for key in keys}


async def synced(partitions: Iterable[Partition], clock: Clock) -> None:
    """Flush the logs, and wait until what they have now is on the device, or they are led here no more."""
    await asyncio.gather(*(_synced(partition, clock) for partition in partitions))


async def _synced(partition: Partition, clock: Clock) -> None:
    log = partition.log
    end = log.log_end_offset
    log.flush()
    while log.flushed.offset < end and partition.role is Role.LEADER:
        await clock.sleep(LOOK_MS)
