"""A partition as the coordinators name it, by topic and index: a bare tuple, made for each one of every request."""

from __future__ import annotations

TopicPartition = tuple[str, int]
