"""Makes the logs of new partitions, in worker threads: their files take several syncs each.

Logs are made by one caller at a time, so no two are ever made for one partition at once. What cannot be made, because
there is no room for it, say, is tried again from time to time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from protocol.errors import KafkaStorage
from storage.folders.new_logs import LogsNotMadeError

if TYPE_CHECKING:
    from metadata.topics import PartitionRegistration
    from protocol.errors import KafkaError
    from protocol.topic_partition import PartitionKey
    from storage.append_types import LogConfig
    from storage.folders.log_manager import LogManager
    from storage.log.unified_log import UnifiedLog

logger = structlog.get_logger(__name__)

PREPARING = 3
"""The number of threads that make new logs: they mostly wait for the device, and their syncs share that wait."""

MOST_NAMED = 10
"""The most partitions that one line of the log names."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition of which this node has a replica, as the image has it."""

    topic: str
    index: int
    topic_id: UUID
    state: PartitionRegistration

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.index


_Plan = tuple["PartitionKey", Callable[[], "UnifiedLog"]]


class LogMaking:
    """`is_known` tells whether a partition is known to have no log, so that nothing is logged of it again."""

    def __init__(self, logs: LogManager, is_known: Callable[[PartitionKey], bool]) -> None:
        self._logs = logs
        self._is_known = is_known
        self.turn = asyncio.Lock()
        """To be held while logs are made and hosted."""

    async def make(
        self, wanted: Collection[Replica], config_of: Callable[[str], LogConfig], node_id: int
    ) -> dict[PartitionKey, UnifiedLog]:
        """Make logs, as far as that is possible. A device failure takes its folder offline, for the next attempt."""
        plans: list[_Plan] = []
        for new in wanted:
            # A follower has the leader epochs of its leader, with its records.
            leader_epoch = new.state.leader_epoch if new.state.leader == node_id else None
            directory = new.state.directory_of(node_id)
            try:
                make = self._logs.plan_log(
                    new.topic, new.index, new.topic_id, config_of(new.topic), leader_epoch, directory
                )
            except KafkaStorage as refused:
                self._say_not_made([new.key], refused)
            else:
                plans.append((new.key, make))
        shares = [share for start in range(PREPARING) if (share := plans[start::PREPARING])]
        call = self._logs.services.workers.call
        made: dict[PartitionKey, UnifiedLog] = {}
        for logs, errors in await asyncio.gather(*(call(partial(self._make_share, share)) for share in shares)):
            for error in errors.values():
                self._logs.services.shortages.note(error.log_dir.path, error.cause)
                self._logs.fail_if_device(error.log_dir, error.cause)
            if errors:
                self._say_not_made(errors, next(iter(errors.values())))
                await self.abandon({key: logs.pop(key, None) for key in errors})
            made |= logs
        return made

    def _make_share(
        self, share: Sequence[_Plan]
    ) -> tuple[dict[PartitionKey, UnifiedLog], dict[PartitionKey, LogsNotMadeError]]:
        """Make the logs of a share; return them, and why others are not there or not safe. In a worker thread."""
        made: dict[PartitionKey, UnifiedLog] = {}
        errors: dict[PartitionKey, LogsNotMadeError] = {}
        for key, make in share:
            try:
                made[key] = make()
            except LogsNotMadeError as error:
                errors[key] = error
        try:
            self._logs.sync_folders()
        except LogsNotMadeError as error:
            errors |= dict.fromkeys(made, error)
        return made, errors

    def _say_not_made(self, keys: Collection[PartitionKey], error: KafkaError) -> None:
        """Log the reason once: there will be many attempts."""
        new = [f"{topic}-{index}" for topic, index in keys if not self._is_known((topic, index))]
        if new:
            logger.error("logs not made", error=error.message, partitions=new[:MOST_NAMED], count=len(new))

    async def abandon(self, unwanted: Mapping[PartitionKey, UnifiedLog | None]) -> None:
        """Remove logs that are not to be hosted, and what is left of those that were not made."""
        removals = [self._logs.abandon(*key, log) for key, log in unwanted.items()]

        def remove() -> list[OSError]:
            errors = []
            for removal in removals:
                try:
                    removal()
                except OSError as error:
                    errors.append(error)
            return errors

        for failure in await self._logs.services.workers.call(remove):  # the next attempt, or start, removes them
            logger.error("folder of a failed creation not removed", error=str(failure))
