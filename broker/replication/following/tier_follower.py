"""A follower whose next records are in remote storage begins where its leader's own files begin (`TierStateMachine`).

| step                                                                       | asked          |
| -------------------------------------------------------------------------- | -------------- |
| the first offset in the leader's files, and its leader epoch               | the leader     |
| the leader epoch of the offset before that, which may be an earlier one    | the leader     |
| the remote segment with that offset: its leader epochs and producers       | remote storage |
| drop the log; begin behind that segment, with these (`TierStart`)          | nobody         |

So an empty replica copies only what is local on the leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.replication.following.leaders_offsets import EARLIEST_LOCAL
from protocol.errors import UnknownServerError
from storage.log.tier_start import TierStart
from storage.workers import folder_lane

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.replication.following.leaders_offsets import LeadersOffsets
    from broker.replication.partition import Partition


async def begin_behind_remote_storage(
    leader: LeadersOffsets,
    partition: Partition,
    leader_epoch: int,
    log_start_offset: int,
    truncate: Callable[[TierStart], Awaitable[bool]],
) -> None:
    """Take the steps above; `log_start_offset` is the leader's, `truncate` takes the last one, unless it may not.

    Raises KafkaError, PeerError and NotToldError.
    """
    log = partition.log
    if not log.config.remote_storage:
        raise UnknownServerError(f"{log.name} has records in remote storage, and is not known to be tiered yet.")
    start, epoch = await leader.offset(partition, leader_epoch, EARLIEST_LOCAL)
    if epoch > 0:
        end, earlier = await leader.end_of_epoch(partition, leader_epoch, epoch - 1)
        if end > start - 1:
            epoch = earlier
    truncation = TierStart(log, await log.tier.replica_state(epoch, start - 1), log_start_offset)
    if await truncate(truncation):
        partition.raise_high_watermark(truncation.offset)  # remote storage has only what is committed
    elif not log.is_offline:
        await log.services.workers.lane(folder_lane("files", log.folder)).call(truncation.give_up)
