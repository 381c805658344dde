"""The in-sync replicas (ISR) as their leader knows them, and the change that the controller decides on.

Theory of operation. The controller alone changes the ISR; the leader proposes (Kafka's `PartitionState`). From the
proposal until the controller has answered nobody knows which ISR holds, so the high watermark waits for the replicas of
both: the maximal ISR.

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
