"""A follower whose next records are in remote storage begins where its leader's own files begin (`TierStateMachine`).

| step                                                                       | asked          |
| -------------------------------------------------------------------------- | -------------- |
| the first offset in the leader's files, and its leader epoch (see below)   | the leader     |
| the leader epoch of the offset before that, which may be an earlier one    | the leader     |
| the remote segment with that offset: its leader epochs and producers       | remote storage |
| drop the log; begin behind that segment, with these (`TierStart`)          | nobody         |

So an empty replica copies only what is local on the leader. With `follower.fetch.last.tiered.offset.enable` it begins
behind all that is in remote storage (KIP-1023): the first offset is that which the leader is to copy next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.peers.call import PeerVersionError
from broker.replication.following.followed import NotToldError
from broker.replication.following.leaders_offsets import EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, UNKNOWN
from protocol.errors import UnknownServerError
from storage.log.follower_append import Truncation
from storage.log.tier_start import TierStart
from storage.workers import folder_lane

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.replication.following.leaders_offsets import LeadersOffsets, OffsetAndEpoch
    from broker.replication.partition import Partition


async def begin_behind_remote_storage(
    leader: LeadersOffsets,
    partition: Partition,
    leader_epoch: int,
    log_start_offset: int,
    truncate: Callable[[Truncation], Awaitable[bool]],
    *,
    from_last_tiered: bool,
) -> None:
    """Take the steps above; `log_start_offset` is the leader's, `truncate` takes the last one, unless it may not.

    Raises KafkaError, PeerError and NotToldError.
    """
    log = partition.log
    if not log.config.remote_storage:
        raise UnknownServerError(f"{log.name} has records in remote storage, and is not known to be tiered yet.")
    if from_last_tiered:
        start, epoch = await _pending_upload(leader, partition, leader_epoch, log_start_offset)
    else:
        start, epoch = await leader.offset(partition, leader_epoch, EARLIEST_LOCAL)
    if start <= log_start_offset:  # nothing that is read from there
        await truncate(Truncation(log, log_start_offset, log_start_offset))
        return
    if epoch > 0:
        end, earlier = await leader.end_of_epoch(partition, leader_epoch, epoch - 1)
        if end > start - 1:
            epoch = earlier
    truncation = TierStart(log, await log.tier.replica_state(epoch, start - 1), log_start_offset)
    if await truncate(truncation):
        partition.raise_high_watermark(truncation.offset)  # remote storage has only what is committed
    elif not log.is_offline:
        await log.services.workers.lane(folder_lane("files", log.folder)).call(truncation.give_up)


async def _pending_upload(
    leader: LeadersOffsets, partition: Partition, leader_epoch: int, log_start_offset: int
) -> OffsetAndEpoch:
    """The first offset that the leader has not copied (`AbstractFetcherThread.fetchEarliestPendingUploadOffset`)."""
    try:
        pending = await leader.offset(partition, leader_epoch, EARLIEST_PENDING_UPLOAD)
    except PeerVersionError:  # an older broker leads
        return await leader.offset(partition, leader_epoch, EARLIEST_LOCAL)
    if pending.offset != UNKNOWN:
        return pending
    local = await leader.offset(partition, leader_epoch, EARLIEST_LOCAL)
    if local.offset != log_start_offset:
        raise NotToldError("The leader does not know yet which of its records are in remote storage.")
    return local
