"""The parts of a node that serve share groups, put together."""

from __future__ import annotations

from typing import NamedTuple

from broker.coordinators.hosted import Host
from broker.coordinators.share_coordinator import ShareCoordinator, ShareStates
from broker.share.dead_letters import DeadLetterQueues
from broker.share.settings import AllShareSettings
from broker.share.share_partitions import SharePartitions


class ShareParts(NamedTuple):
    """The share coordinator, requests to it and to those of other nodes, and the share partitions led here."""

    coordinator: ShareCoordinator
    states: ShareStates
    partitions: SharePartitions


def open_share_parts(host: Host) -> ShareParts:
    coordinator = ShareCoordinator(host)
    states = ShareStates(coordinator)
    settings = AllShareSettings(host.current, host.cache)
    letters = DeadLetterQueues(host, settings)
    most_sessions = host.current.config.integer("group.share.max.share.sessions")
    partitions = SharePartitions(host.replicas, settings, states, letters, host.clock, most_sessions)
    return ShareParts(coordinator, states, partitions)
