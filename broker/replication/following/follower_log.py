"""A follower's requests to its leader, and its own log, which the answers change.

A follower keeps its side of an incremental fetch session (KIP-227; Kafka's `FetchSessionHandler`):

| state    | request                                                | answer                            | next state |
| -------- | ------------------------------------------------------ | --------------------------------- | ---------- |
| NONE     | epoch 0: all partitions                                | names a session                   | IN SESSION |
| NONE     | epoch 0: all partitions                                | names none                        | NONE       |
| IN SESSION | the next epoch: what has changed, and what to forget | without an error                  | IN SESSION |
| IN SESSION | the next epoch: what has changed, and what to forget | with an error, or none came       | NONE       |

A request that begins a new session names the old one, which the leader then drops.

Where its log differs from the leader's, the follower truncates it (KIP-101, KIP-279, KIP-595;
`AbstractFetcherThread.getOffsetTruncationState`). The leader says up to which offset its own log has the largest epoch
that is not above the follower's last one. Nothing below the point where both logs are the same is ever dropped: it is
found epoch by epoch, each step by an answer of the leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from broker.peers.call import Call
from protocol.produce_fetch import replica_fetch
from protocol.produce_fetch.fetch_request import FetchPartition, FetchRequest, ForgottenTopic
from protocol.produce_fetch.fetch_response import EpochEndOffset, FetchResponse
from protocol.produce_fetch.parts import TopicKey
from storage.log import follower_append
from storage.log.follower_append import Truncation
from storage.log.unified_log import UnifiedLog
from storage.workers import folder_lane

if TYPE_CHECKING:
    from broker.replication.partition import Partition


FETCH = 1
"""The API's key."""

NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = 2**31 - 1

Key = tuple[UUID, int]
"""(topic id, partition index)."""


class FollowerFetchSession:
    """See the table above.

    Attributes:
        id: the session's; 0 for none.
        epoch: that of the next request; 0 begins a new session.
    """

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self._sent: dict[Key, FetchPartition] = {}

    def next_request(
        self, wanted: Mapping[Key, FetchPartition]
    ) -> tuple[list[tuple[TopicKey, list[FetchPartition]]], list[ForgottenTopic]]:
        """The partitions to name in the next request: new and changed ones to fetch, and others to forget."""
        if self.epoch == FIRST_EPOCH:
            changed, forgotten = dict(wanted), []
        else:
            changed = {key: partition for key, partition in wanted.items() if self._sent.get(key) != partition}
            forgotten = [key for key in self._sent if key not in wanted]
        self._sent = dict(wanted)
        topics: dict[TopicKey, list[FetchPartition]] = {}
        for (topic_id, _), partition in changed.items():
            topics.setdefault(topic_id, []).append(partition)
        gone: dict[TopicKey, list[int]] = {}
        for topic_id, index in forgotten:
            gone.setdefault(topic_id, []).append(index)
        return list(topics.items()), [(topic_id, tuple(indexes)) for topic_id, indexes in gone.items()]

    def answered(self, session_id: int) -> None:
        """Note an answer that has no error for the request as a whole."""
        if self.epoch == FIRST_EPOCH:
            self.id = session_id
        elif session_id == NO_SESSION:
            self.id, self.epoch = NO_SESSION, FIRST_EPOCH
            return
        if self.id != NO_SESSION:
            self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1

    def lost(self, *, unknown: bool = False) -> None:
        """Begin anew: there was no answer, or an error. `unknown`: the leader has no such session."""
        self.epoch = FIRST_EPOCH
        if unknown:
            self.id = NO_SESSION


logger = structlog.get_logger(__name__)


def fetch_call(request: FetchRequest) -> Call[FetchResponse]:
    """The call of a Fetch that names topics by id."""
    return Call(
        FETCH,
        replica_fetch.LOWEST,
        replica_fetch.HIGHEST,
        lambda _: True,
        lambda out, _: replica_fetch.encode_request(out, request),
        lambda frame, position, _: replica_fetch.decode_response(frame, position),
    )


def append(partition: Partition, records: memoryview, now_ms: int, most_batches: int) -> int:
    """Append what the leader has from this log's end on; see `follower_append.append`."""
    size = follower_append.append(
        partition.log, records, leader_epoch=partition.leader_epoch, now_ms=now_ms, most_batches=most_batches
    )
    partition.changed()
    return size


def take_offsets(partition: Partition, high_watermark: int, log_start_offset: int) -> None:
    """Take over the leader's high watermark and log start, as far as this log reaches. Raises KafkaStorage."""
    partition.raise_high_watermark(min(high_watermark, partition.log_end_offset))
    partition.log.increment_log_start_offset(min(log_start_offset, partition.high_watermark))


async def truncate(partition: Partition, truncation: Truncation, may_cut: Callable[[], bool]) -> bool:
    """Cut the log, unless `may_cut` does not allow it when it comes to that; whether it was cut.

    What waits for the device is done in a worker thread. Once begun it must not be cancelled. Raises KafkaStorage.
    """
    log = partition.log
    workers = log.services.workers.lane(folder_lane("files", log.folder))
    truncation.begin()
    with truncation.holding():
        try:
            await workers.call(truncation.lower)
            log.check_online()
            if not may_cut():
                return False
            _warn_of_loss(partition, truncation)
            truncation.cut()
            partition.lower_high_watermark()
            await workers.call(truncation.follow)
        except OSError as error:
            raise log.fail(error) from error
        log.check_online()  # else it was deleted, or has failed
        truncation.finish()
        partition.lower_high_watermark()  # for the producers, too
    return True


def _warn_of_loss(partition: Partition, truncation: Truncation) -> None:
    if truncation.offset < partition.high_watermark and not truncation.is_anew:
        logger.warning(
            "truncating below the high watermark",
            partition=partition.log.name,
            offset=truncation.offset,
            high_watermark=partition.high_watermark,
        )


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
