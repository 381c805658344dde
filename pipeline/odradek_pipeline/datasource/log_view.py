"""The logs of all wanted partitions as readers see them at one moment."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

from odradek_pipeline.datasource.errors import CorruptLogError, DataLossError, DataSourceError
from odradek_pipeline.datasource.folders import (
    CLEAN_SHUTDOWN,
    LOG_START,
    REPLICATION,
    Home,
    find_homes,
    read_checkpoint,
    topic_id,
)
from odradek_pipeline.datasource.indexes import AbortedTxn
from odradek_pipeline.datasource.log_tail import LogTail
from odradek_pipeline.datasource.options import HighWatermark, Isolation, SourceOptions
from odradek_pipeline.datasource.segments import Listing, list_segments
from odradek_pipeline.datasource.tier_view import TierView
from odradek_pipeline.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The offsets beside the logs of one data folder."""

    root: str
    log_starts: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]

    @classmethod
    def read(cls, root: str) -> Checkpoints:
        """Raises CorruptLogError, OSError."""
        return cls(root, read_checkpoint(root, LOG_START), read_checkpoint(root, REPLICATION))

    def least_end(self, partition: TopicPartition) -> int:
        """The offset that the log's end cannot be below: it was there when the checkpoints were written."""
        return max(self.high_watermarks.get(partition, 0), self.log_starts.get(partition, 0))

    def clean_shutdown(self) -> bool:
        """Whether the broker has been stopped in good order, and not been started again."""
        return os.path.exists(f"{self.root}/{CLEAN_SHUTDOWN}")


@dataclass(frozen=True, slots=True)
class LogState:
    """A snapshot of a log: readers may have offsets in [start, end). `topic_id` is None if the folder has none."""

    home: Home
    topic_id: str | None
    listing: Listing
    start: int
    end: int
    tail: LogTail

    def aborted(self, start: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions that may have records in [start, end). Raises OSError, CorruptLogError."""
        if not self.tail.with_transactions or start >= end:
            return []
        return [txn for txn in self.tail.aborted_from(self.listing, start) if txn.first_offset < end]


class LogView:
    """Looks at a log repeatedly, each time reading only what is new."""

    def __init__(self, options: SourceOptions, tier: TierView | None = None) -> None:
        self._options = options
        self._tier = tier
        self._topic_id: str | None = None
        self._tail: LogTail | None = None
        self._outdated = -1
        self._warned = ""

    def look(self, home: Home, checkpoints: Checkpoints) -> LogState | None:
        """The log as it is now; None if its folder is gone, or has no segment yet.

        Raises DataSourceError or a subclass, OSError.
        """
        for _ in range(_ATTEMPTS):
            try:
                return self._look(home, checkpoints)
            except FileNotFoundError:
                continue  # a file was renamed or removed between the listing and its opening
        try:
            list_segments(home.folder)
        except FileNotFoundError:
            return None
        raise DataSourceError(f"The files of {home.folder} go faster than they can be opened.")

    def _look(self, home: Home, checkpoints: Checkpoints) -> LogState | None:
        listing = list_segments(home.folder)
        if not listing.segments:
            if checkpoints.least_end(home.partition):
                self._check_end(home, checkpoints, 0, None)
            return None
        found_id = topic_id(home)
        saved_start = checkpoints.log_starts.get(home.partition)
        limit = None
        if self._options.high_watermark is HighWatermark.CHECKPOINTED:
            limit = max(checkpoints.high_watermarks.get(home.partition, 0), listing.segments[0].base_offset)
        if self._tier is not None:
            listing = self._tier.joined(home.partition, found_id, listing, saved_start)
        log_start = max(saved_start or 0, listing.segments[0].base_offset)
        if self._tail is None or found_id != self._topic_id:
            self._begin(listing, limit)
            if self._topic_id is not None:  # recreated: a broker writes its checkpoints some seconds later
                self._outdated = checkpoints.least_end(home.partition)
            self._topic_id = found_id
        tail = self._advance(listing, limit)
        self._check_end(home, checkpoints, tail.end, tail)
        end = tail.end if limit is None else min(tail.end, limit)
        if tail.first_unstable_offset is not None:
            end = min(end, max(tail.first_unstable_offset, log_start))
        return LogState(home, found_id, listing, min(log_start, end), end, tail)

    def _check_end(self, home: Home, checkpoints: Checkpoints, end: int, tail: LogTail | None) -> None:
        """Check that the log goes as far as its broker had come. Raises CorruptLogError, OSError."""
        least = checkpoints.least_end(home.partition)
        if end < least != self._outdated:
            text = (
                f"{home.folder} ends at offset {end}, and the checkpoints beside it say that it went up to {least}: "
                f"{least - end} offsets are missing. It is damaged or was cut; or the checkpoints were copied after "
                "the log (copy them first), or the topic was recreated a moment ago (read again)."
            )
        elif tail is not None and tail.torn is not None and checkpoints.clean_shutdown() and tail.is_still_torn():
            path, position = tail.torn
            text = (
                f"{path}: there is no whole batch at {position}, after offset {end - 1}, though the broker was stopped "
                f"in good order: {os.path.getsize(path) - position} bytes are damaged."
            )
        else:
            return
        if self._options.fail_on_corruption:
            raise CorruptLogError(f"{text} With failOnCorruption=false they are left out.")
        if text != self._warned:
            logger.warning("the end of a log is missing: %s", text)
            self._warned = text

    def _begin(self, listing: Listing, limit: int | None) -> LogTail:
        committed = self._options.isolation is Isolation.READ_COMMITTED
        strict = self._options.fail_on_corruption
        self._tail = LogTail.begin(listing, limit, with_transactions=committed, strict=strict)
        return self._tail

    def _advance(self, listing: Listing, limit: int | None) -> LogTail:
        tail = self._tail
        if tail is None or tail.end < listing.segments[0].base_offset:  # retention has overtaken it
            tail = self._begin(listing, limit)
        try:
            tail.advance(listing, limit)
        except FileNotFoundError:
            self._tail = None
            raise
        except DataLossError:
            if self._options.fail_on_data_loss:
                raise
            tail = self._begin(listing, limit)
            tail.advance(listing, limit)
        return tail

    def look_at_tier(self, partition: TopicPartition, topic_id: str, tier: TierView) -> LogState | None:
        """The part of a log that is in remote storage, which is all there is; None if that is nothing.

        It ends where its last segment does, or a transaction that was open then began.
        Raises DataSourceError or a subclass, OSError.
        """
        where = str(self._options.tier)
        listing = tier.joined(partition, topic_id, Listing(where, (), ()), None)
        last = listing.segments[-1].remote if listing.segments else None
        if last is None:
            return None
        committed = self._options.isolation is Isolation.READ_COMMITTED
        end = last.end_offset + 1
        tail = LogTail(end, end, committed, self._options.fail_on_corruption)
        if committed:
            tail.open_transactions.update(tier.open_transactions(last))
        stable = end if tail.first_unstable_offset is None else tail.first_unstable_offset
        return LogState(Home(partition, where, where), topic_id, listing, listing.segments[0].base_offset, stable, tail)

    def forget(self, offset: int) -> None:
        """Forget what is only needed to read records before `offset`."""
        if self._tail is not None:
            self._tail.forget(offset)


class Planner:
    """Remembers what it has walked over, so that a stream's next look is cheap."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._views: dict[TopicPartition, LogView] = {}
        self._tier = None if options.tier is None else TierView(options, options.tier)

    def look(self) -> dict[TopicPartition, LogState]:
        """The logs of the wanted partitions. Raises DataSourceError or a subclass, OSError."""
        if self._tier is not None and not self._options.paths:
            return self._look_at_tier(self._tier)
        gone: set[Home] = set()
        while True:
            homes = find_homes(self._options.paths, lambda partition: self._options.wants(*partition))
            checkpoints = {root: Checkpoints.read(root) for root in self._options.paths}
            states = {}
            if self._tier is not None:
                self._tier.refresh(frozenset(home.partition for home in homes))
            for home in homes:
                view = self._views.setdefault(home.partition, LogView(self._options, self._tier))
                state = view.look(home, checkpoints[home.root])
                if state is not None:
                    states[home.partition] = state
            missed = {home for home in homes if home.partition not in states}
            if missed <= gone:
                return states
            gone = missed  # the partition was deleted or moved, or is being created

    def _look_at_tier(self, tier: TierView) -> dict[TopicPartition, LogState]:
        tier.refresh(None)
        states = {}
        for partition, topic in tier.alone().items():
            state = LogView(self._options).look_at_tier(partition, topic, tier)
            if state is not None:
                states[partition] = state
        return states

    def check_topics(self, states: Mapping[TopicPartition, LogState]) -> None:
        """Raises DataSourceError if a named topic does not exist."""
        missing = (self._options.topics or frozenset()) - {partition.topic for partition in states}
        if missing:
            where = ", ".join(self._options.paths) or self._options.tier
            raise DataSourceError(f"No partition of {', '.join(sorted(missing))} is in {where}.")

    def forget(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Forget what is only needed to read records before these offsets."""
        for partition, offset in offsets.items():
            if partition in self._views:
                self._views[partition].forget(offset)
