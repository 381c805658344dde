"""Offsets by timestamp in remote storage, for ListOffsets (Kafka's `DelayedRemoteListOffsets`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import Timeout
from protocol.remote_storage.store import RemoteStoreError
from storage.tier.remote_reader import within

if TYPE_CHECKING:
    from broker.request_context import RequestContext
    from storage.log.log_segments import TimestampOffsetEpoch
    from storage.log.unified_log import UnifiedLog


async def first_in_remote_storage(
    ctx: RequestContext, log: UnifiedLog, timestamp: int, timeout_ms: int
) -> TimestampOffsetEpoch | None:
    """The first record in remote storage alone whose timestamp (ms) is at least this. Raises KafkaError.

    `timeout_ms` is the request's; if that is 0, `remote.list.offsets.request.timeout.ms` counts.
    """
    if timeout_ms <= 0:
        timeout_ms = ctx.local.config.integer("remote.list.offsets.request.timeout.ms")
    try:
        return await within(ctx.local.clock.machine, timeout_ms, log.tier.first_at_or_after(timestamp))
    except RemoteStoreError as error:
        raise Timeout(str(error)) from error
