"""Sets of partitions, as members own them and assignors assign them."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Partition indexes by topic id; a topic's set is empty only where a classic member's share of it was."""

NO_PARTITIONS: Partitions = {}

AssignmentEpochs = Mapping[UUID, Mapping[int, int]]
"""The epoch at which a member got each of its partitions, by topic id and partition index (KIP-1251)."""

NO_EPOCHS: AssignmentEpochs = {}


def epochs_of(partitions: Partitions, epoch: int) -> dict[UUID, dict[int, int]]:
    """One epoch for all."""
    return {topic: dict.fromkeys(indexes, epoch) for topic, indexes in partitions.items()}
