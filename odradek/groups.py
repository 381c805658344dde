"""Groups and transactions as their coordinators know them: groups of every kind, and transactional ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, Self

from odradek.control import ControlError, Described, in_thread
from odradek.group_kinds import Member, ShareGroup, StreamsGroup, TopicPartition

GroupState = Literal[
    "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", "NotReady", "Dead"
]


class Lag(dict[TopicPartition, int]):
    """Records that a group has not committed yet, by (topic, partition), and in `total`.

    Where the group has never committed, all records of the partition count. For a share group they are those that are
    not done, neither acknowledged nor given up, as `kafka-share-groups.sh --describe` counts them. A partition that it
    has not begun to read is left out.
    """

    @property
    def total(self) -> int:
        return sum(self.values())


class Group(ShareGroup, StreamsGroup):
    """A group of any kind: classic, consumer, share, streams. Every look at it asks the broker anew.

    It is a str too, its id, and clients take it as that.
    """

    # -- how it is

    @property
    def state(self) -> str:
        """Empty, PreparingRebalance, CompletingRebalance or Stable; in the consumer protocol Assigning, Reconciling.

        Dead if it does not exist.
        """
        return str(self.describe()["state"])

    @property
    def members(self) -> list[Member]:
        """Its members, in the order in which they came."""
        return [Member(**member) for member in self.describe()["members"]]

    @property
    def generation(self) -> int:
        """The generation; the group epoch in the consumer protocol."""
        return int(self.describe()["generation"])

    def lag(self) -> Lag:
        """How many records it has not committed yet; of a share group, how many are not done.

        Raises ControlError if a partition's end is not known, as it has no leader, or one that does not answer.
        """
        found = self._control().get(f"{self._path}/lag")["partitions"]
        unknown = [
            f"{partition['topic']}-{partition['partition']}: {partition['unknown']}"
            for partition in found
            if partition["end"] is None
        ]
        if unknown:
            raise ControlError(f"the lag of group {self.id} is not known ({'; '.join(unknown)})", status=503)
        return Lag(
            {
                (partition["topic"], partition["partition"]): partition["lag"]
                for partition in found
                if partition["lag"] is not None
            }
        )

    def committed(self) -> dict[TopicPartition, int]:
        """The committed offsets, by (topic, partition)."""
        return _offsets(self._control().get(f"{self._path}/committed"))

    # -- configurations

    @property
    def configs(self) -> dict[str, str]:
        """What is set for this group itself, by Kafka's names."""
        found: dict[str, str] = self._control().get(f"{self._path}/configs")["configs"]
        return found

    def configure(self, configs: Mapping[str, object]) -> Self:
        """Set configurations of the group, which need not exist: `{"share.delivery.count.limit": 2}`.

        None removes one. They are gone after the test. Raises ControlError for a name or a value that Kafka refuses.
        """
        self._control().post(f"{self._path}/configs", configs=dict(configs))
        return self

    # -- waits

    def wait(
        self,
        *,
        state: GroupState | None = None,
        members: int | None = None,
        lag: int | None = None,
        share_sessions: int | None = None,
        timeout: float = 5.0,
    ) -> Self:
        """Return once all of it is so at the same time. A group that does not exist yet is waited for.

        `lag` is the largest total lag; it counts while the group is Stable or Empty. `share_sessions` is how many
        members fetch as a share group. `timeout` is in seconds. Raises WaitTimeoutError, whose text says how the group
        was at the end.
        """
        self._control().post(
            f"{self._path}/wait",
            state=state,
            members=members,
            lag=lag,
            share_sessions=share_sessions,
            timeout=timeout,
        )
        return self

    wait_async = in_thread(wait)

    # -- on demand

    def rebalance(self) -> None:
        """Begin a rebalance now. The members hear of it with their next heartbeats.

        Raises ControlError if there are no members.
        """
        self._control().post(f"{self._path}/rebalance")

    def expire(self, member: str | Member | None = None) -> list[str]:
        """End sessions now, as if the member had been silent for its session timeout; return the member ids.

        `member` is a member id, a client id or an instance id; without it, all sessions end.
        """
        name = member.id if isinstance(member, Member) else member
        expired: list[str] = self._control().post(f"{self._path}/expire", member=name)["expired"]
        return expired

    def reset_offsets(
        self,
        to: Literal["earliest", "latest"] | int | datetime,
        *,
        topic: str | None = None,
        partitions: Iterable[int] | None = None,
    ) -> dict[TopicPartition, int]:
        """Commit other offsets for a group without members, and return all that are committed now.

        A share group starts at them, and those that were set are returned.

        A datetime stands for the first record of that time or later (without a zone it is local time), an int for
        itself, even if there is no such offset. Without `topic`, the partitions to which the group has committed;
        without `partitions`, all of the topic.
        """
        return _offsets(
            self._control().post(
                f"{self._path}/reset_offsets",
                to=_target(to),
                topic=topic,
                partitions=None if partitions is None else list(partitions),
            )
        )

    def delete(self) -> None:
        """Delete it with its offsets. Raises ControlError if it has members, or does not exist."""
        self._control().delete(self._path)


def _target(to: object) -> str | int:
    if isinstance(to, datetime):
        return to.astimezone().isoformat()
    if isinstance(to, str | int) and not isinstance(to, bool):
        return to
    raise TypeError(f'to = {to!r}: expected "earliest", "latest", an offset or a datetime')


def _offsets(answer: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return {(partition["topic"], partition["partition"]): partition["offset"] for partition in answer["partitions"]}


TransactionState = Literal[
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"
]


class Transaction(Described):
    """A transactional id. Every look at it asks the broker anew.

    It is a str too, the id, and clients take it as that.
    """

    _KIND = "transactions"
    _PARAMETER = "transactional_id"

    @property
    def state(self) -> str:
        """Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort; Dead if it does not exist."""
        return str(self.describe()["state"])

    @property
    def producer_id(self) -> int:
        """The id of its producer; -1 if it does not exist."""
        return int(self.describe()["producer_id"])

    @property
    def epoch(self) -> int:
        """The epoch of its producer; -1 if it does not exist."""
        return int(self.describe()["epoch"])

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The partitions of the open transaction, as (topic, partition)."""
        by_topic = self.describe()["partitions"]
        return [(topic, index) for topic, indexes in by_topic.items() for index in indexes]

    def abort(self, *, timeout: float = 5.0) -> None:
        """Fence the producer and abort its open transaction, as Kafka's tools do; return once that is done.

        `timeout` is in seconds. Raises ControlError if no transaction is open.
        """
        self._control().post(f"{self._path}/abort", timeout=timeout)

    def fence(self, *, timeout: float = 5.0) -> None:
        """Give the transactional id a new producer epoch: its producer is a zombie now. An open transaction is aborted.

        As `Admin.fenceProducers` does.
        """
        self._control().post(f"{self._path}/fence", timeout=timeout)

    def wait(self, *, state: TransactionState, timeout: float = 5.0) -> Self:
        """Return once it is in that state; one that does not exist yet is waited for.

        `timeout` is in seconds. Raises WaitTimeoutError, whose text says how it was at the end.
        """
        self._control().post(f"{self._path}/wait", state=state, timeout=timeout)
        return self

    wait_async = in_thread(wait)
