"""What rules look at: values of one moment, so that a rule can be tried on any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.inspection.fetches import FetchView
from broker.inspection.groups import GroupView, MemberView
from broker.inspection.kit import KitView
from broker.inspection.lag import PartitionLag
from broker.inspection.partitions import PartitionView
from broker.inspection.producers import ProducerRequest
from broker.inspection.share_groups import ShareGroupView
from broker.inspection.streams_groups import StreamsGroupView
from broker.inspection.transactions import TransactionView
from protocol.topic_partition import PartitionKey


@dataclass(frozen=True, slots=True)
class Holder:
    """An open transaction, and the last request of its producer, if that is known."""

    transaction: TransactionView
    request: ProducerRequest | None

    def described(self, now_ms: int) -> str:
        """`the transaction of transactional id x (client c at h), open for 40 s`."""
        who = f" ({self.request.who})" if self.request is not None else ""
        age_ms = self.transaction.age_ms(now_ms)
        return (
            f"the transaction of transactional id {self.transaction.transactional_id}{who}, open for {age_ms // 1000} s"
        )


Holders = Mapping[int, Holder]
"""Open transactions by producer id."""


def who(member: MemberView) -> str:
    """`member m-1 (client c at h)`."""
    instance = f", instance {member.instance_id}" if member.instance_id else ""
    return f"member {member.member_id} (client {member.client_id or '-'} at {member.host}{instance})"


@dataclass(frozen=True, slots=True)
class GroupSituation:
    """A group and what it reads.

    `now_ms` is the wall time. `lags` and `partitions` are of every existing partition that concerns the group.
    `fetches` is None where no journal is kept. `existing` are the names of the topics that exist. `shares` and
    `streams` are what such groups have besides.
    """

    now_ms: int
    group: GroupView
    lags: Sequence[PartitionLag]
    partitions: Mapping[PartitionKey, PartitionView]
    fetches: Sequence[FetchView] | None
    holders: Holders
    existing: frozenset[str]
    groups: Sequence[str]
    kit: KitView
    shares: ShareGroupView | None = None
    streams: StreamsGroupView | None = None

    def fetch_of(self, member: MemberView, key: PartitionKey) -> FetchView | None:
        """The member's last Fetch of a partition: the latest one of its client id and host."""
        found = [
            fetch
            for fetch in self.fetches or ()
            if fetch.client_id == member.client_id and fetch.client.host == member.host and key in fetch.offsets
        ]
        return min(found, key=lambda fetch: fetch.ago_ms, default=None)


@dataclass(frozen=True, slots=True)
class TopicSituation:
    """A topic, and who reads it; `unknown` says which groups are not known. `retention_ms` is -1 for ever.

    `in_sync` has the number of in-sync replicas of each partition with a leader, of which `least_in_sync` are wanted.
    """

    now_ms: int
    topic: str
    partitions: Sequence[PartitionView]
    in_sync: Mapping[str, int]
    least_in_sync: int
    retention_ms: int
    readers: Sequence[str]
    unknown: Sequence[str]
    existing: frozenset[str]
    holders: Holders
    kit: KitView


@dataclass(frozen=True, slots=True)
class TransactionSituation:
    """A transactional id, the last requests of its producers, and its partitions. Times are ms."""

    now_ms: int
    transaction: TransactionView
    requests: Sequence[ProducerRequest]
    partitions: Sequence[PartitionView]
    existing: Sequence[str]
    check_interval_ms: int
    kit: KitView
