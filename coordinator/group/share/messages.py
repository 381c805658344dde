"""ShareGroupHeartbeat as the coordinator sees it."""

from __future__ import annotations

from typing import NamedTuple

from protocol.coordinator_records.record_schema import Partitions

JOINING = 0
LEFT = -1


class ShareHeartbeat(NamedTuple):
    """A request; `topics` is None if the subscription has not changed."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    topics: tuple[str, ...] | None
    client_id: str
    client_host: str


class ShareHeartbeatAnswer(NamedTuple):
    """An answer; `assigned` is None if it is what the member knows."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assigned: Partitions | None = None
