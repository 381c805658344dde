"""What rules look at: values of one moment, so that a rule can be tried on any of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from broker.faults.connections import ConnectionFault, ConnectionFaultKind
from broker.faults.faults import AnyFault
from broker.faults.registry_calls import RegistryFault
from broker.faults.spec import Fault, FaultSpec
from broker.node import Node
from broker.testkit.inspection import TransactionView
from broker.testkit.inspection.groups import GroupView, MemberView
from broker.testkit.inspection.partitions import PartitionLag, PartitionView
from broker.testkit.inspection.share_and_streams import ShareGroupView, StreamsGroupView
from broker.testkit.journal_views import FetchView, ProducerRequest
from metadata.topics import PartitionRegistration
from protocol.api.names import API_NAMES, error_name
from protocol.topic_partition import PartitionKey
from timing.adjustable_clock import AdjustableClock


def seconds(ms: float) -> str:
    """`40 s`; below ten seconds with one decimal."""
    return f"{ms / 1000:.0f} s" if ms >= 9_950 else f"{max(ms, 0) / 1000:.1f} s"


@dataclass(frozen=True, slots=True)
class KitView:
    """`faults` has a sentence for each one that may strike here. `clock_is_frozen`: no timer fires.

    `is_open`: there is a control interface, so that a test may do what an operator does by a command.
    """

    faults: Sequence[str] = ()
    clock_is_frozen: bool = False
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Concerned:
    """What is looked at: a fault for something else is left out. None stands for anything."""

    groups: Collection[str] | None = None
    topics: Collection[str] | None = None
    transactional_ids: Collection[str] | None = None

    def by(self, spec: FaultSpec) -> bool:
        """Whether the fault may strike one of these."""
        pairs = (
            (spec.group, self.groups),
            (spec.topic, self.topics),
            (spec.transactional_id, self.transactional_ids),
        )
        return all(name is None or names is None or name in names for name, names in pairs)


def read_kit(node: Node, concerned: Concerned) -> KitView:
    faults: Iterable[AnyFault] = () if node.faults is None else node.faults
    described = [_sentence(each, concerned) for each in faults]
    frozen = isinstance(node.clock, AdjustableClock) and node.clock.frozen
    found = [sentence for sentence in described if sentence]
    return KitView(found, clock_is_frozen=frozen, is_open=node.faults is not None)


def _sentence(fault: AnyFault, concerned: Concerned) -> str:
    """Empty for a fault that cannot strike here."""
    if isinstance(fault, RegistryFault):
        return _of_registry(fault)
    return _of_connections(fault) if isinstance(fault, ConnectionFault) else _of_requests(fault, concerned)


def _of_registry(fault: RegistryFault) -> str:
    what = {name: value for name, value in fault.described.items() if value is not None and name != "kind"}
    given = ", ".join(f"{name}={value}" for name, value in what.items())
    return f"the schema registry's clients: {given} (has struck {fault.hits} times)" if fault.active else ""


def _of_connections(fault: ConnectionFault) -> str:
    pairs = (("client", fault.client_id), ("listener", fault.listener))
    where = ", ".join(f"{name} {value}" for name, value in pairs if value is not None) or "all clients"
    return f"connections of {where}: {_KINDS[fault.kind]} (has struck {fault.hits})"


_KINDS = {
    ConnectionFaultKind.REFUSE: "refused",
    ConnectionFaultKind.THROTTLE: "slow",
    ConnectionFaultKind.STALL: "silent",
}


def _of_requests(fault: Fault, concerned: Concerned) -> str:
    """A sentence about a fault of requests; empty if it cannot strike here any more."""
    spec = fault.spec
    return _described(fault) if fault.active and not spec.only_observes and concerned.by(spec) else ""


def _described(fault: Fault) -> str:
    spec = fault.spec
    apis = "any API" if spec.any_api else ", ".join(API_NAMES[api] for api in spec.apis)
    where = [
        f"{name} {value}"
        for name, value in (
            ("topic", spec.topic),
            ("partition", spec.partition),
            ("group", spec.group),
            ("transactional id", spec.transactional_id),
            ("client", spec.client_id),
            ("listener", spec.listener),
        )
        if value is not None
    ]
    left = "" if spec.count is None else f", {spec.count - fault.matched} more times"
    selected = f" of {', '.join(where)}" if where else ""
    return f"{apis}{selected}: {', '.join(_actions(spec))} (has struck {fault.hits} times{left})"


def _actions(spec: FaultSpec) -> Iterator[str]:
    if spec.delay_ms:
        yield f"delayed by {spec.delay_ms / 1000:g} s"
    if spec.error is not None:
        yield f"answered {error_name(spec.error)}"
    if spec.drop is not None:
        yield f"the {spec.drop.value} is lost"
    if spec.disconnect:
        yield "disconnected"
    if spec.then is not None:
        yield f"then {spec.then.value.replace('_', ' ')}"


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
    `fetches` is None where no journal is kept. `existing` are the names of the topics that exist, `groups` a group
    whose name is near, if there is none of this name. `shares` and `streams` are what such groups have besides.
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

    `registered` are its partitions as the controller has them, of whose replicas `least_in_sync` are wanted in sync.
    """

    now_ms: int
    topic: str
    partitions: Sequence[PartitionView]
    registered: Mapping[int, PartitionRegistration]
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
