"""Which requests a fault matches, and which of a request's partitions. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.peers.client import INSPECTION_CLIENT_ID

if TYPE_CHECKING:
    from broker.faults.facts import Facts
    from broker.faults.spec import FaultSpec
    from broker.request_context import RequestContext


@dataclass(frozen=True, slots=True)
class Selection:
    """The matched part of a request. `whole`: there is no other part."""

    topic: str | None
    partition: int | None
    whole: bool

    def has(self, topic: str | None, partition: int | None) -> bool:
        """Whether a partition (None: the topic as such) is in the matched part."""
        if self.topic is not None and topic != self.topic:
            return False
        return self.partition is None or partition is None or partition == self.partition


def matches_head(spec: FaultSpec, ctx: RequestContext) -> bool:
    """Whether the selectors match that need no look into the request; what brokers ask about each other is let be."""
    return (
        ctx.client_id != INSPECTION_CLIENT_ID
        and (spec.version is None or ctx.version == spec.version)
        and (spec.client_id is None or ctx.client_id == spec.client_id)
        and (spec.listener is None or ctx.connection.listener_name == spec.listener)
    )


def select(spec: FaultSpec, facts: Facts) -> Selection | None:
    """The part of a request that the fault is about; None if it is about none."""
    if spec.group is not None and spec.group not in facts.groups:
        return None
    if spec.transactional_id is not None and spec.transactional_id not in facts.transactional_ids:
        return None
    if not spec.selects_partitions:
        return Selection(None, None, whole=True)
    chosen = Selection(spec.topic, spec.partition, whole=False)
    if facts.partitions is None:
        return chosen
    inside = [chosen.has(*partition) for partition in facts.partitions]
    if not any(inside):
        return None
    return Selection(spec.topic, spec.partition, whole=all(inside))
