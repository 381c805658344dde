"""Deleted topics are remembered until their partitions' folders have other names on the device, and no longer.

If a crash comes first, the next start knows by this that the folders are to be removed, rather than kept as strays.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from protocol.errors import KafkaStorage
from storage.folders.new_logs import LogsNotMadeError

if TYPE_CHECKING:
    from broker.metadata.topics import Topics
    from storage.folders.log_manager import LogManager

logger = structlog.get_logger(__name__)


class DeletedTopics:
    """Lets `topics` forget deleted topics, in the background."""

    def __init__(self, topics: Topics, logs: LogManager) -> None:
        self._topics = topics
        self._logs = logs
        self._workers = logs.services.workers.lane("deletions")
        self._gone: set[UUID] = set()
        self._forgetting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Forget those of earlier runs, after the logs were loaded; but a folder that cannot be used may have some."""
        if not self._logs.failed_folders:
            self._forget_soon(self._topics.deleted)

    def renamed(self, topic_id: UUID) -> None:
        """The folders of all the topic's partitions have other names."""
        self._forget_soon({topic_id})

    async def stop(self) -> None:
        """Return once there is nothing left to forget."""
        if self._forgetting is not None:
            await asyncio.wait([self._forgetting])

    def _forget_soon(self, topic_ids: set[UUID]) -> None:
        self._gone |= topic_ids
        if self._gone and (self._forgetting is None or self._forgetting.done()):
            self._forgetting = asyncio.create_task(self._forget(), name="deleted-topics")

    async def _forget(self) -> None:
        while self._gone:
            gone, self._gone = self._gone, set()
            try:
                await self._workers.call(self._logs.sync_folders)
                await self._topics.forget_deleted(gone)
            except KafkaStorage as error:  # the next start tries again
                logger.warning("deleted topics not forgotten", error=error.message)
                if isinstance(error, LogsNotMadeError):
                    self._logs.fail_if_device(error.log_dir, error.cause)
