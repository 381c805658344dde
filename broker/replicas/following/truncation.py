"""How far a follower must truncate its log where it differs from the leader's (KIP-101, KIP-279, KIP-595).

The leader says up to which offset its own log has the largest epoch that is not above the follower's last one. Nothing
below the point where both logs are the same is ever dropped: it is found epoch by epoch, each step by an answer of the
leader (`AbstractFetcherThread.getOffsetTruncationState`).
"""

from __future__ import annotations

from protocol.produce_fetch.fetch_response import EpochEndOffset
from storage.log.unified_log import UnifiedLog


def offset_to_truncate_to(log: UnifiedLog, leaders: EpochEndOffset) -> int:
    """The offset to truncate to, given where the leader's log ends an epoch; the next fetch tells if that was all."""
    end = log.log_end_offset
    epoch, epoch_end = log.end_offset_for_epoch(leaders.epoch)
    if epoch == leaders.epoch:
        return min(epoch_end, leaders.end_offset, end)
    if epoch < 0:  # no epoch up to the leader's is known here
        return min(leaders.end_offset, end)
    # The leader's epoch is not known here: what follows the last epoch before it is not the leader's.
    return min(epoch_end, end)
