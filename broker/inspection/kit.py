"""What a test has done to the node: faults that are set, and the clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from broker.faults.connections import ConnectionFault, Kind
from broker.faults.spec import Fault, FaultSpec
from broker.node import Node
from protocol.api.names import API_NAMES, error_name
from timing.adjustable_clock import AdjustableClock


@dataclass(frozen=True, slots=True)
class KitView:
    """`faults` has a sentence for each one that may strike here. `clock_is_frozen`: no timer fires."""

    faults: Sequence[str] = ()
    clock_is_frozen: bool = False


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
    faults: Iterable[Fault | ConnectionFault] = () if node.faults is None else node.faults
    described = [
        _of_connections(each) if isinstance(each, ConnectionFault) else _of_requests(each, concerned) for each in faults
    ]
    frozen = isinstance(node.clock, AdjustableClock) and node.clock.frozen
    return KitView([sentence for sentence in described if sentence], clock_is_frozen=frozen)


def _of_connections(fault: ConnectionFault) -> str:
    pairs = (("client", fault.client_id), ("listener", fault.listener))
    where = ", ".join(f"{name} {value}" for name, value in pairs if value is not None) or "all clients"
    return f"connections of {where}: {_KINDS[fault.kind]} (has struck {fault.hits})"


_KINDS = {Kind.REFUSE: "refused", Kind.THROTTLE: "slow", Kind.STALL: "silent"}


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
