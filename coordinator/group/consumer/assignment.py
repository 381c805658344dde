"""Sets of partitions, as members own them and assignors hand them out."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Partition indexes by topic id; a topic has an empty set only where the share of a classic member had none of it."""

NO_PARTITIONS: Partitions = {}
