"""A leader's knowledge of its followers: how far each is, and which of them are in sync.

`FollowerState` is of one follower, from its fetches (Kafka's `Replica` and `ReplicaState`). `InSyncReplicas` is the
ISR and the change that the controller decides on. The controller alone changes the ISR; the leader proposes (Kafka's
`PartitionState`). From the proposal until the controller has answered nobody knows which ISR holds, so the high
watermark waits for the replicas of both: the maximal ISR.


| state     | event                                                        | next state |
| --------- | ------------------------------------------------------------ | ---------- |
| COMMITTED | a follower has caught up, or lags too long: `propose`        | PENDING    |
| PENDING   | the controller has accepted, or the image has a newer ISR    | COMMITTED  |
| PENDING   | the controller says that nothing was changed: `withdraw`     | COMMITTED  |
| PENDING   | the controller has refused and does not say so (`refused`)   | PENDING    |

In the last case, as with FENCED_LEADER_EPOCH, this node's metadata is old, or an earlier copy of the request was
accepted and its answer lost: the next image decides, or the answer to the next request.
"""

from __future__ import annotations

from collections.abc import Iterable

NO_REPLICAS: frozenset[int] = frozenset()


class InSyncReplicas:
    """See the theory of operation above.

    Attributes:
        committed: the newest ISR that is known from the controller.
        proposed: the ISR that the controller was asked for; None if nothing is pending.
        maximal: the replicas that are in either of them.
    """

    __slots__ = ("committed", "maximal", "proposed")

    def __init__(self) -> None:
        self.committed = self.maximal = NO_REPLICAS
        self.proposed: frozenset[int] | None = None

    @property
    def is_pending(self) -> bool:
        return self.proposed is not None

    def commit(self, isr: Iterable[int]) -> None:
        """Take over what the controller has decided."""
        self.committed = self.maximal = frozenset(isr)
        self.proposed = None

    def propose(self, isr: frozenset[int]) -> None:
        """Note that the controller is asked for this ISR. Only one change is pending at a time."""
        if self.proposed is not None:
            raise AssertionError("a change of the ISR is pending already")
        self.proposed = isr
        self.maximal = self.committed | isr

    def withdraw(self) -> None:
        """Note that the controller did not do what it was asked for, and will not."""
        self.proposed = None
        self.maximal = self.committed


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
        """Begin to lead, knowing nothing of the follower. One in the ISR has the lag limit's time to fetch."""
        self.log_start_offset = self.log_end_offset = self._leader_end_at_fetch = UNKNOWN_OFFSET
        self._fetched_ms = LONG_AGO
        self.caught_up_ms = now_ms if in_sync else LONG_AGO
        self.broker_epoch = NO_BROKER_EPOCH

    def begin_epoch(self, now_ms: float, leader_end: int, *, in_sync: bool) -> None:
        """Begin a new epoch of the same leader. A follower outside of the ISR must fetch before it may join."""
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
