"""Partitions as their leaders have them, on this node or another, and how far a group is behind their end.

What a follower has is old: its high watermark is what the leader's was at its last Fetch. So a partition's offsets are
told by its leader, or not at all, as Kafka's tools do it. The lag is what Kafka's tools count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from broker.node import Node
from broker.peers.leaders import (
    NONE,
    PATIENCE_MS,
    RETRY_MS,
    LogBounds,
    Told,
    Unknown,
    ask_bounds,
    ask_offsets,
    ask_open_producers,
)
from broker.replication.partition import Role
from broker.testkit.inspection.groups import SETTLED, GroupView
from broker.testkit.inspection.share_and_streams import ShareOffset, read_share_offsets
from metadata.topics import TopicsImage
from protocol.errors import KafkaError, OffsetNotAvailable
from protocol.metadata.topics import NO_LEADER
from protocol.topic_partition import PartitionKey
from storage.log import time_lookup

NO_LEADER_ONLINE = "no leader is online"
NOT_YET = "its leader is new, and does not know yet what is committed"


@dataclass(frozen=True, slots=True)
class PartitionView:
    """Its offsets, -1 if they are not known, and the producers of its open transactions by first offset.

    `leader` is NO_LEADER if its log is offline, or another node should lead it and none does. `unknown` says why the
    offsets are not known, and is empty if they are. `is_here`: all its readers fetch from this node.
    """

    topic: str
    partition: int
    start: int
    stable: int
    end: int
    leader: int
    open_producers: Mapping[int, int] = field(default_factory=dict)
    unknown: str = ""
    is_here: bool = True

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def is_known(self) -> bool:
        return not self.unknown

    @property
    def is_held(self) -> bool:
        """Whether an open transaction keeps readers of committed records from its end."""
        return self.stable < self.end


async def read_partitions(
    node: Node, keys: Iterable[PartitionKey], patience_ms: float = PATIENCE_MS
) -> dict[PartitionKey, PartitionView]:
    """Those of the partitions that exist, in order. A leader that does not answer is asked again for a while."""
    clock = node.clock.machine
    deadline_ms = clock.monotonic_ms() + patience_ms
    found: dict[PartitionKey, PartitionView] = {}
    missing: Collection[PartitionKey] = sorted(set(keys))
    while True:
        read, missing = await _read(node, missing)
        found |= read
        if not missing or clock.monotonic_ms() >= deadline_ms:
            return dict(sorted(found.items()))
        await clock.sleep(RETRY_MS)


async def read_topics(
    node: Node, topics: Iterable[str], patience_ms: float = PATIENCE_MS
) -> dict[PartitionKey, PartitionView]:
    """The partitions of those topics that exist, in order."""
    images = [(name, node.cluster.cache.topic(name)) for name in topics]
    keys = [(name, index) for name, topic in images if topic is not None for index in range(topic.partition_count)]
    return await read_partitions(node, keys, patience_ms)


async def _read(
    node: Node, keys: Iterable[PartitionKey]
) -> tuple[dict[PartitionKey, PartitionView], list[PartitionKey]]:
    """The partitions as they are now, and those of them of which more is likely to be known soon."""
    found: dict[PartitionKey, PartitionView] = {}
    elsewhere: dict[int, list[PartitionKey]] = {}
    for key in keys:
        leader = leader_of(node, key)
        if leader == node.node_id:
            found[key] = _of_this_node(node, key)
        elif leader == NO_LEADER:
            found[key] = PartitionView(*key, -1, -1, -1, NO_LEADER, unknown=NO_LEADER_ONLINE)
        elif leader is not None:
            elsewhere.setdefault(leader, []).append(key)
    soon = [key for key, one in found.items() if one.unknown == NOT_YET]
    for read, passing in await asyncio.gather(*(_ask(node, leader, of) for leader, of in elsewhere.items())):
        found |= read
        soon += passing
    return found, soon


def leader_of(node: Node, key: PartitionKey) -> int | None:
    """The partition's leader as this node knows it; None if there is no such partition."""
    topic = node.cluster.cache.topic(key[0])
    registered = None if topic is None else topic.partitions.get(key[1])
    return None if registered is None else registered.leader


def _of_this_node(node: Node, key: PartitionKey) -> PartitionView:
    partition = node.replicas.get(*key)
    if partition is None or partition.role is not Role.LEADER:
        return PartitionView(*key, -1, -1, -1, NO_LEADER, unknown=NO_LEADER_ONLINE)
    try:
        partition.check_end_is_known()
    except OffsetNotAvailable:
        return PartitionView(*key, -1, -1, -1, node.node_id, unknown=NOT_YET)
    start, stable, end, _ = partition.bounds
    open_producers = dict(partition.log.producers.open_transactions)
    is_here = node.local.config.optional_string("replica.selector.class") is None
    return PartitionView(*key, start, stable, end, node.node_id, open_producers, is_here=is_here)


async def _ask(
    node: Node, leader: int, keys: Collection[PartitionKey]
) -> tuple[dict[PartitionKey, PartitionView], list[PartitionKey]]:
    told = await ask_bounds(node.cluster.peers.reach, leader, keys)
    found = {key: _as_told(key, leader, one) for key, one in told.items()}
    held = [key for key, one in found.items() if one.is_held]
    producers = await ask_open_producers(node.cluster.peers.reach, leader, held) if held else {}
    found |= {key: replace(found[key], open_producers=producers.get(key, {})) for key in held}
    return found, [key for key, one in told.items() if isinstance(one, Unknown) and one.passes]


def _as_told(key: PartitionKey, leader: int, told: LogBounds | Unknown) -> PartitionView:
    if isinstance(told, Unknown):
        return PartitionView(*key, -1, -1, -1, leader, unknown=told.why, is_here=False)
    return PartitionView(*key, told.start, told.stable, told.end, leader, is_here=False)


async def offsets_at_time(node: Node, leader: int, keys: Collection[PartitionKey], wall_ms: int) -> Told:
    """The first committed offset of that time or later in partitions of one leader; -1 where there is none."""
    if leader != node.node_id:
        return await ask_offsets(node.cluster.peers.reach, leader, keys, wall_ms)
    return {key: await _at_time(node, key, wall_ms) for key in keys}


async def _at_time(node: Node, key: PartitionKey, wall_ms: int) -> int | Unknown:
    try:
        partition = node.replicas.find(*key)
        partition.check_leads()
        found = await time_lookup.first_at_or_after(partition.log, wall_ms)
        partition.check_leads()  # it may be led elsewhere by now
    except KafkaError as error:
        return Unknown(str(error), passes=True)
    return NONE if found is None or found.offset >= partition.high_watermark else found.offset


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition: `end` is its high watermark; `committed` is None if the group has not committed there.

    `shared` is where a share group starts there, which commits nothing. `unknown` says why `start` and `end` are not
    known, and is empty if they are.
    """

    topic: str
    partition: int
    committed: int | None
    start: int
    end: int
    unknown: str = ""
    shared: ShareOffset | None = None

    @property
    def begin(self) -> int | None:
        """What the lag counts from: the committed offset; the start offset of a share group."""
        return self.committed if self.shared is None else self.shared.start

    @property
    def is_begun(self) -> bool:
        """False if a share group has not begun to read what there is, so that its lag is not known."""
        return bool(self.unknown) or self.lag is not None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def lag(self) -> int | None:
        """The records from the committed offset to the end; without a commit, all that there are.

        For a share group, those that are not done yet. None if the leader did not tell the end, and if a share group
        has not begun to read what there is.
        """
        if self.unknown:
            return None
        if self.shared is not None:
            return self.shared.lag(self.start, self.end)
        first = self.start if self.begin is None else self.begin
        return max(self.end - first, 0)


def concerned(group: GroupView, topics: TopicsImage) -> list[PartitionKey]:
    """The partitions that the group has committed to, has assigned, or subscribes to.

    Of what a streams group needs, its tasks read what is assigned; changelogs are no part of its lag.
    """
    keys: dict[PartitionKey, None] = dict.fromkeys((*group.offsets, *group.owners()))
    for name in group.topics if not group.is_streams else ():
        topic = topics.get(name)
        keys |= dict.fromkeys((name, index) for index in range(0 if topic is None else topic.partition_count))
    return sorted(keys)


def partition_lags(
    group: GroupView,
    keys: Iterable[PartitionKey],
    partitions: Mapping[PartitionKey, PartitionView],
    starts: Mapping[PartitionKey, ShareOffset],
) -> list[PartitionLag]:
    """The lag in each of these partitions, as far as it exists. `starts` is where a share group starts."""
    found = []
    for key in keys:
        partition = partitions.get(key)
        if partition is not None:
            committed = group.offsets.get(key)
            offset = None if committed is None else committed.value.offset
            shared = starts.get(key, ShareOffset()) if group.is_share else None
            found.append(PartitionLag(*key, offset, partition.start, partition.end, partition.unknown, shared))
    return found


async def read_lags(
    node: Node, groups: Sequence[GroupView], patience_ms: float = PATIENCE_MS
) -> list[list[PartitionLag]]:
    """The lags of each group, in every existing partition that concerns it."""
    topics = node.cluster.cache.image.topics
    starts = [await read_share_offsets(node, group) for group in groups]
    keys = [sorted({*concerned(group, topics), *of}) for group, of in zip(groups, starts, strict=True)]
    partitions = await read_partitions(node, (key for of_group in keys for key in of_group), patience_ms)
    return [partition_lags(group, of, partitions, start) for group, of, start in zip(groups, keys, starts, strict=True)]


def sum_of(lags: Iterable[PartitionLag]) -> int | None:
    """The sum; None if one of them is not known."""
    found = 0
    for one in lags:
        if one.lag is None:
            return None
        found += one.lag
    return found


def total_lag(group: GroupView, lags: Sequence[PartitionLag]) -> int | None:
    """The sum; None while it says nothing: without partitions, while members wait for theirs, if one is not known."""
    return sum_of(lags) if lags and group.state in SETTLED else None
