"""What the controller says of partitions, and which are not as they should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.cluster.broker import ClusterBroker

Asked = Mapping[str, Any]
"""A partition, or the cluster, as the control interface describes it."""

MOST_NAMED = 5


def behind(cluster: Asked, brokers: Sequence[ClusterBroker]) -> list[str]:
    """What is not in sync, a sentence each: brokers that run and are fenced, partitions that lack replicas."""
    known = {one["id"]: one for one in cluster["brokers"]}
    fenced = [
        f"broker {broker.index} is fenced"
        for broker in brokers
        if broker.running and known.get(broker.index, {"fenced": True})["fenced"]
    ]
    lacking = list(_lacking(cluster["partitions"]))
    more = [f"and {len(lacking) - MOST_NAMED} more"] if len(lacking) > MOST_NAMED else []
    return [*fenced, *lacking[:MOST_NAMED], *more]


def _lacking(partitions: Sequence[Asked]) -> Iterator[str]:
    for one in partitions:
        if one["leader"] < 0 or set(one["isr"]) != set(one["replicas"]):
            yield described(one)


def described(partition: Asked) -> str:
    leader = f"led by broker {partition['leader']}" if partition["leader"] >= 0 else "without a leader"
    replicas, isr = (", ".join(map(str, partition[name])) or "none" for name in ("replicas", "isr"))
    return f"{partition['topic']}-{partition['partition']} is {leader}, has replicas {replicas}, in sync {isr}"
