"""What a leader knows of one follower, from the follower's fetches (Kafka's `Replica` and `ReplicaState`)."""

from __future__ import annotations

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
LONG_AGO = float("-inf")


class FollowerState:
    """Where a follower is, and when it last had all that the leader had; times are monotonic milliseconds.

    A fetch from `offset` says that the follower has everything below. It has caught up if that was the leader's end
    when the fetch came. It has also caught up, as of the fetch before, if that was the leader's end then: under
    constant load a follower never sees the end.

    Attributes:
        log_end_offset: the offset of its last fetch; -1 as long as it has not fetched from this leader.
        log_start_offset: the start of its log.
        caught_up_ms: when it last had caught up.
        broker_epoch: that of its last fetch; -1 if that had none.
    """

    __slots__ = (
        "_fetched_ms",
        "_leader_end_at_fetch",
        "broker_epoch",
        "caught_up_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, now_ms: float, *, in_sync: bool) -> None:
        """This node leads now, and knows nothing of the follower. One in the ISR has the lag limit's time to fetch."""
        self.log_start_offset = self.log_end_offset = self._leader_end_at_fetch = UNKNOWN_OFFSET
        self._fetched_ms = LONG_AGO
        self.caught_up_ms = now_ms if in_sync else LONG_AGO
        self.broker_epoch = NO_BROKER_EPOCH

    def begin_epoch(self, now_ms: float, leader_end: int, *, in_sync: bool) -> None:
        """The same leader has a new epoch. A follower outside of the ISR must fetch before it may join."""
        self._leader_end_at_fetch = leader_end
        self._fetched_ms = self.caught_up_ms = now_ms if in_sync else LONG_AGO

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, now_ms: float, broker_epoch: int) -> None:
        """Note a fetch from `offset`, when the leader's log ended at `leader_end`."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._leader_end_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self._leader_end_at_fetch = max(leader_end, self._leader_end_at_fetch)
        self._fetched_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end: int, now_ms: float, lag_time_max_ms: float) -> bool:
        """Whether it is at the leader's end, or was within the last `lag_time_max_ms`."""
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= lag_time_max_ms
