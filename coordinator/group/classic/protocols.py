"""Which of their protocols (for consumers: assignors) the members of a classic group use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from typing import NamedTuple


class MemberProtocol(NamedTuple):
    """A protocol that a member supports, with the member's metadata for it."""

    name: str
    metadata: bytes


def names_of(protocols: Iterable[MemberProtocol]) -> frozenset[str]:
    """The protocols' names without repetitions. Deviation: Kafka counts repeated ones, and may find no common protocol.

    In that case Kafka answers no member when the join phase ends.
    """
    return frozenset([protocol.name for protocol in protocols])


def common_protocols(members: Iterable[tuple[MemberProtocol, ...]]) -> frozenset[str]:
    """The names that every member supports; there must be members."""
    return frozenset.intersection(*map(names_of, members))


def choose_protocol(members: Iterable[tuple[MemberProtocol, ...]], candidates: Container[str]) -> str:
    """The candidate with the most votes: each member votes for the first of its protocols that is a candidate.

    In a tie, the candidate that got a vote first. Each member must support a candidate.
    """
    votes = Counter(
        next(protocol.name for protocol in protocols if protocol.name in candidates) for protocols in members
    )
    return max(votes, key=votes.__getitem__)
