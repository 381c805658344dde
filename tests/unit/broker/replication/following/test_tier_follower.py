"""Where an empty replica of a tiered topic begins, by what its leader tells (KIP-1023)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.peers.call import PeerVersionError
from broker.replication.following.followed import NotToldError
from broker.replication.following.leaders_offsets import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    UNKNOWN,
    OffsetAndEpoch,
)
from broker.replication.following.tier_follower import begin_behind_remote_storage
from broker.replication.partition import Partition
from storage.append_types import LogConfig
from storage.log.follower_append import Truncation
from tests.unit.broker.partitions import alone
from tests.unit.storage.support import TOPIC_ID, Rig

LOG_START = 7


class Leader:
    """Tells these offsets; one that is None it does not know to ask for."""

    def __init__(self, offsets: dict[int, int | None]) -> None:
        self.offsets = offsets

    async def offset(self, _partition: Partition, _leader_epoch: int, which: int) -> OffsetAndEpoch:
        found = self.offsets[which]
        if found is None:
            raise PeerVersionError("ListOffsets 11 is not served")
        return OffsetAndEpoch(found, 0)


async def begun(offsets: dict[int, int | None]) -> list[Truncation]:
    rig = Rig(config=LogConfig(remote_storage=True))
    partition = Partition("t", TOPIC_ID, 0, rig.log(), lambda _: None, alone(rig.clock))
    done: list[Truncation] = []

    async def truncate(truncation: Truncation) -> bool:
        done.append(truncation)
        return True

    leader: Any = Leader(offsets)
    await begin_behind_remote_storage(leader, partition, 5, LOG_START, truncate, from_last_tiered=True)
    return done


@pytest.mark.parametrize("pending", [UNKNOWN, None, LOG_START])
async def test_of_a_log_of_which_nothing_is_tiered_an_empty_replica_copies_all(pending: int | None) -> None:
    """Whether the leader says so, or does not know, or is an older broker."""
    (truncation,) = await begun({EARLIEST_PENDING_UPLOAD: pending, EARLIEST_LOCAL: LOG_START})
    assert truncation.offset == LOG_START


async def test_a_leader_that_does_not_know_yet_what_is_tiered_is_asked_again() -> None:
    with pytest.raises(NotToldError, match="does not know yet"):
        await begun({EARLIEST_PENDING_UPLOAD: UNKNOWN, EARLIEST_LOCAL: LOG_START + 1})
