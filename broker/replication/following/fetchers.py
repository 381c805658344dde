"""All fetchers of a node: each leader's partitions are shared out to `num.replica.fetchers` (Kafka's
`ReplicaFetcherManager`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING
from zlib import crc32

from broker.replication.following.fetcher import Fetcher
from broker.replication.following.followed import FetcherContext, Followed

if TYPE_CHECKING:
    from broker.replication.partition import Partition
    from protocol.topic_partition import PartitionKey


class Fetchers:
    """A fetcher is made when a partition first needs it, and ends when it has none."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._of: dict[PartitionKey, Fetcher] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._stopped = False

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(self._fetchers.values())

    @property
    def followed(self) -> Iterator[tuple[Fetcher, Followed]]:
        """Every partition that is fetched, with its fetcher."""
        for fetcher in self:
            for followed in fetcher.followed.values():
                yield fetcher, followed

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's present leader, in its present epoch."""
        if self._stopped:
            return
        present = self._of.get(partition.key)
        if present is not None and present.is_following(partition):
            return
        self.leave(partition)
        number = crc32(f"{partition.topic}-{partition.index}".encode()) % self._context.cluster.settings().fetchers
        place = partition.leader_id, number
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = Fetcher(self._context, *place)
        self._of[partition.key] = fetcher
        fetcher.add(partition)

    def leave(self, partition: Partition) -> None:
        """Fetch the partition no more."""
        fetcher = self._of.pop(partition.key, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def end_idle(self) -> None:
        """End the fetchers without a partition; after changes, as one may be needed again at once."""
        for place, fetcher in list(self._fetchers.items()):
            if not fetcher.followed:
                del self._fetchers[place]
                task = asyncio.ensure_future(fetcher.stop())
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """Fetch nothing any more. The metadata are followed for a while longer, and the logs are about to be closed."""
        self._stopped = True
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._of.clear()
        await asyncio.gather(*self._ending, *(fetcher.stop() for fetcher in fetchers))
