"""Sets of partitions, as members own them and assignors assign them."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Partition indexes by topic id; a topic's set is empty only where a classic member's share of it was."""

NO_PARTITIONS: Partitions = {}
