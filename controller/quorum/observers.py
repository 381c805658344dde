"""Reads of the metadata log by brokers, as observers of the quorum (Kafka's `KafkaRaftClient`; KIP-595, KIP-630).

Only what is durable is given out, so an observer has never more than what is committed. One that comes with records of
an epoch that ended earlier is told where to truncate; one that is behind the log's start gets a snapshot.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from controller.quorum.metadata_log import MetadataLog
from controller.quorum.snapshots import SnapshotId
from protocol.primitives import Buffer
from timing.clock import Clock

LEAST_BYTES, MOST_BYTES = 1, 8 << 20
"""Bytes of one answer; a batch that is larger than asked comes whole."""

SESSION_MS = 5 * 60 * 1000
"""An observer that has not fetched for so long is forgotten (Kafka's `LeaderState.OBSERVER_SESSION_TIMEOUT_MS`)."""
MOST_KNOWN = 10_000
"""The most observers that are remembered, the last to fetch: any id may fetch, registered or not."""


@dataclass(frozen=True, slots=True)
class Diverging:
    """The observer is to truncate to this: an epoch, and the offset at which it ended here."""

    epoch: int
    end_offset: int


@dataclass(slots=True)
class Observer:
    """How far an observer is; instants are wall-clock milliseconds, -1 for never."""

    offset: int
    fetched_ms: int
    caught_up_ms: int = -1


class MetadataObservers:
    """Reads the log for observers, and remembers them."""

    def __init__(self, log: MetadataLog, clock: Clock) -> None:
        self.log = log
        self._known: OrderedDict[int, Observer] = OrderedDict()  # who fetched longest ago comes first
        self._clock = clock
        self._waiting: set[asyncio.Future[None]] = set()
        log.call_when_durable(self._wake)

    @property
    def high_watermark(self) -> int:
        return self.log.durable_end

    def check(self, offset: int, last_epoch: int) -> Diverging | SnapshotId | None:
        """Why an observer cannot read from `offset`, after a record of `last_epoch`; None if it can.

        Source: Kafka's `ReplicatedLog.validateOffsetAndEpoch`.
        """
        log = self.log.log
        start, snapshots = log.log_start_offset, self.log.snapshots
        if offset == start == 0:
            return None
        if start and snapshots:
            oldest = snapshots[0]
            if offset < start or last_epoch < oldest.epoch or (offset == start and last_epoch != oldest.epoch):
                return snapshots[-1]
        if last_epoch > log.leader_epochs.latest:
            return Diverging(max(log.leader_epochs.latest, 0), self.high_watermark)
        epoch, end = log.end_offset_for_epoch(last_epoch)
        end = min(end, self.high_watermark)
        if epoch != last_epoch or end < offset:
            return Diverging(max(epoch, 0), max(end, 0))
        return None

    async def read(self, offset: int, most: int) -> Buffer:
        """The durable batches from `offset` on: of about so many bytes, but one at least, if there is any.

        Raises KafkaError.
        """
        if offset >= self.high_watermark:
            return b""
        most = min(max(most, LEAST_BYTES), MOST_BYTES)
        upper = self.log.log.locate(self.high_watermark)
        plan = self.log.log.plan_read(offset, most, upper, min_one_message=True)
        data = plan.try_read()
        return await plan.read() if data is None else data

    async def wait(self, offset: int, wait_ms: float) -> None:
        """Return once there is something durable from `offset` on, or the time is over."""
        if wait_ms <= 0 or offset < self.high_watermark:
            return
        moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(moved)
        timer = self._clock.call_later(wait_ms, lambda: _resolve(moved))
        try:
            await moved
        finally:
            timer.cancel()
            self._waiting.discard(moved)

    @property
    def known(self) -> Mapping[int, Observer]:
        """The observers that have fetched within a session, by node id."""
        self._forget_silent()
        return self._known

    def note(self, node_id: int, offset: int) -> None:
        """Note that an observer has fetched from `offset`, so it has all records before."""
        now_ms = self._clock.wall_ms()
        observer = self._known.setdefault(node_id, Observer(offset, now_ms))
        observer.offset, observer.fetched_ms = offset, now_ms
        if offset >= self.high_watermark:
            observer.caught_up_ms = now_ms
        self._known.move_to_end(node_id)
        self._forget_silent()

    def _forget_silent(self) -> None:
        oldest_ms = self._clock.wall_ms() - SESSION_MS
        while self._known:
            node_id, observer = next(iter(self._known.items()))
            if observer.fetched_ms >= oldest_ms and len(self._known) <= MOST_KNOWN:
                break
            del self._known[node_id]

    def forget(self, node_id: int) -> None:
        """Forget a node that is not registered any more."""
        self._known.pop(node_id, None)

    def stop(self) -> None:
        """End all waits."""
        self._wake()

    def _wake(self) -> None:
        for moved in self._waiting:
            _resolve(moved)


def _resolve(moved: asyncio.Future[None]) -> None:
    if not moved.done():
        moved.set_result(None)
