"""What a simulated cluster is like, and what happens in it how often: every seed has its own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

EVENTS = {
    "produce": 25.0,
    "flush": 4.0,
    "checkpoint": 2.0,
    "kill": 1.2,
    "power": 1.2,
    "disk": 0.4,
    "stop": 0.7,
    "cut": 1.0,
    "isolate": 0.7,
    "heal": 1.5,
    "elect": 2.0,
    "delete": 0.5,
    "reassign": 1.0,
    "cancel": 0.5,
    "move": 0.7,
    "retain": 1.0,
}
"""What may happen at a step, and how often."""

RARELY_TO_OFTEN = [0.0, 0.3, 1.0, 1.0, 3.0]
CONFIGS: list[dict[str, str]] = [{}, {}, {"flush_messages": "1"}, {"retention_bytes": "2000"}]


@dataclass(frozen=True, slots=True)
class Shape:
    """`configs` are the topic's; with `elr` there are eligible leader replicas (KIP-966).

    With `unclean` any replica may be elected, so that records are lost: the replicas must only be equal in the end.
    """

    nodes: tuple[int, ...]
    replicas: int
    partitions: int
    configs: Mapping[str, str]
    events: Mapping[str, float]
    elr: bool
    unclean: bool


def draw(rng: random.Random, *, unclean: bool = False) -> Shape:
    """A shape at random."""
    replicas = rng.choice([2, 3, 3])
    configs = {"min_insync_replicas": str(rng.choice([1, 2, 2])), **rng.choice(CONFIGS)}
    if unclean:
        configs["unclean_leader_election_enable"] = "true"
    return Shape(
        nodes=tuple(range(1, replicas + rng.choice([1, 1, 2, 3]))),
        replicas=replicas,
        partitions=rng.choice([1, 2, 2, 4]),
        configs=configs,
        events={event: often * rng.choice(RARELY_TO_OFTEN) for event, often in EVENTS.items()} | {"heal": 1.5},
        elr=rng.random() < 0.5,
        unclean=unclean,
    )
