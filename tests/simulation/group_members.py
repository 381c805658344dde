"""Members of groups in virtual time, of both protocols: they share the partitions of a topic, and commit offsets.

Each member reads the committed offset of a partition that it gets, and commits one after the other from there on. Now
and then a member leaves, or dies without a word, and comes back as another one. `GroupFacts` has what all members of a
group were told, and checks it as it comes.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment

from protocol.consumer_protocol import deserialize_assignment, serialize_assignment
from tests.simulation.whole_clients import AGAIN, GROUP_KEY, TOPIC, WholeClient
from tests.unit.broker.cluster_rig import ClusterRig
from tests.unit.broker.members import subscription

SESSION = timedelta(seconds=6)
REBALANCE = timedelta(seconds=60)
CONFIG = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
    "group.coordinator.append.linger.ms": "0",
    "group.initial.rebalance.delay.ms": "100",
}
GONE = {"unknown_member_id", "fenced_member_epoch"}
BEHIND = GONE | {"stale_member_epoch", "illegal_generation", "rebalance_in_progress"}
"""Errors that tell a member that the group has gone on without it."""


class GroupFacts:
    """What the members of a group were told: no partition has two members in one generation, and a committed offset is
    never lost, and never goes back.

    A coordinator that was replaced, and does not know it yet, answers what it knows, as Kafka's does. So it is not
    checked what a member reads that has lost the partition to another one meanwhile.

    Attributes:
        acknowledged: the largest offset of each partition whose commit was acknowledged.
        sent: the largest that was tried.
    """

    def __init__(self, group: str, topic_id: UUID, partitions: range) -> None:
        self.group = group
        self.topic_id = topic_id
        self.partitions = partitions
        self.acknowledged: dict[int, int] = {}
        self.sent: dict[int, int] = {}
        self._owners: dict[tuple[int, int], str] = {}
        self._newest: dict[int, str] = {}

    def assigned(self, member_id: str, generation: int, indexes: Iterable[int]) -> None:
        """The member was told that it has these partitions."""
        for index in indexes:
            owner = self._owners.setdefault((generation, index), member_id)
            assert owner == member_id, f"{index} of generation {generation} has {owner} and {member_id}"
            self._newest[index] = member_id

    def committed(self, index: int, offset: int) -> None:
        """A commit was acknowledged."""
        self.acknowledged[index] = max(offset, self.acknowledged.get(index, -1))

    def check_read(self, member_id: str, index: int, offset: int, least: int) -> None:
        """A member has read a committed offset; `least` was acknowledged before it asked."""
        if self._newest[index] == member_id:
            self.check_committed(index, offset, least)

    def check_committed(self, index: int, offset: int, least: int) -> None:
        most = self.sent.get(index, -1)
        assert least <= offset <= most, f"{index}: {offset} is committed; acknowledged: {least}, tried: {most}"


class GroupMember(WholeClient, ABC):
    """A member, and those that take its place when it is gone."""

    def __init__(self, cluster: ClusterRig, rng: random.Random, name: str, facts: GroupFacts) -> None:
        super().__init__(cluster, rng)
        self.facts = facts
        self._names = (f"{name}-{number}" for number in count())
        self._member_id = ""
        self._generation = 0
        self._owned: set[int] = set()
        self._positions: dict[int, int] = {}
        self._coordinator: int | None = None

    async def run(self) -> None:
        while not self._is_over:
            await self._live()

    @property
    def _is_over(self) -> bool:
        return self.stopping and bool(self.facts.acknowledged)

    async def _live(self) -> None:
        """From the first join on, until the member leaves or dies."""
        self._begin()
        while not self._is_over and self._rng.random() > 0.02:
            await self._take_part()
            await self._find_positions()
            for index in list(self._positions):
                if self._rng.random() < 0.5:
                    await self._commit(index)
            await self.pause()
        self._own(())
        if self._is_over or self._rng.random() < 0.5:
            await self._leave()
        else:
            await self._cluster.clock.sleep(self._rng.choice([100, 2_000, 8_000]))

    @abstractmethod
    def _begin(self) -> None:
        """Be somebody new."""

    @abstractmethod
    async def _take_part(self) -> None:
        """Join, or show that the member is alive, and take over what it is assigned."""

    @abstractmethod
    async def _leave(self) -> None:
        """Say that the member goes, once: nobody may hear it."""

    def _own(self, indexes: Iterable[int]) -> None:
        """Have these partitions, and no others."""
        self._owned = set(indexes)
        self._positions = {index: at for index, at in self._positions.items() if index in self._owned}
        self.facts.assigned(self._member_id, self._generation, self._owned)

    async def _ask_coordinator(
        self, code_of: Callable[[Any], Any], api: str, version: int, **fields: Any
    ) -> tuple[str, Any]:
        """The name of the error, and the answer. Another coordinator is looked for where this one cannot answer."""
        if self._coordinator is None:
            self._coordinator = await self.coordinator(GROUP_KEY, self.facts.group)
        found = await self.ask(self._coordinator, api, version, group_id=self.facts.group, **fields)
        code = "network_exception" if found is None else code_of(found).name
        if code in AGAIN:
            self._coordinator = None
        return code, found

    async def _find_positions(self) -> None:
        for index in sorted(self._owned - self._positions.keys()):
            if self._coordinator is None:
                return
            least = self.facts.acknowledged.get(index, -1)
            found = await self.ask(self._coordinator, "offset_fetch", 9, groups=(wanted(self.facts.group, index),))
            if found is None or found.groups[0].error_code.name != "none":
                self._coordinator = None
                return
            offset = committed_in(found)
            self.facts.check_read(self._member_id, index, offset, least)
            self._positions[index] = offset

    async def _commit(self, index: int) -> None:
        offset = self._positions[index] + 1
        self.facts.sent[index] = max(offset, self.facts.sent.get(index, -1))
        partition = OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        code, _ = await self._ask_coordinator(
            lambda found: found.topics[0].partitions[0].error_code,
            "offset_commit",
            9,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            group_instance_id=None,
            topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),),
        )
        assert code in AGAIN | BEHIND | {"none"}, code
        if code == "none":
            self.facts.committed(index, offset)
            self._positions[index] = offset


def wanted(group: str, index: int) -> OffsetFetchRequestGroup:
    """The question for a committed offset."""
    return OffsetFetchRequestGroup(
        group_id=group, topics=(OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(index,)),)
    )


def committed_in(found: Any) -> int:
    """The answer to it."""
    partition = found.groups[0].topics[0].partitions[0]
    assert partition.error_code.name == "none", partition.error_code
    return int(partition.committed_offset)


class ConsumerMember(GroupMember):
    """Of the consumer protocol (KIP-848): the generation is the member's epoch."""

    def _begin(self) -> None:
        self._member_id, self._generation = next(self._names), 0

    async def _take_part(self) -> None:
        code, found = await self._heartbeat()
        if code == "none":
            self._generation = found.member_epoch
            if found.assignment is not None:
                self._own(index for topic in found.assignment.topic_partitions for index in topic.partitions)
        elif code in GONE:
            self._own(())
            self._generation = 0
        else:
            assert code in AGAIN, code

    async def _heartbeat(self) -> tuple[str, Any]:
        """A heartbeat that says everything, so that the answer says everything."""
        owned = (TopicPartitions(topic_id=self.facts.topic_id, partitions=tuple(sorted(self._owned))),)
        return await self._ask_coordinator(
            lambda found: found.error_code,
            "consumer_group_heartbeat",
            1,
            member_id=self._member_id,
            member_epoch=self._generation,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=REBALANCE,
            subscribed_topic_names=(TOPIC,),
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=owned if self._owned else (),
        )

    async def _leave(self) -> None:
        self._generation = -1
        await self._heartbeat()


class ClassicMember(GroupMember):
    """Of the classic protocol: it gives back everything before it joins again; the leader deals partitions out."""

    def _begin(self) -> None:
        self._member_id, self._generation = "", -1

    async def _take_part(self) -> None:
        if self._generation < 0:
            await self._join()
            return
        code, _ = await self._ask_coordinator(lambda found: found.error_code, "heartbeat", 4, **self._identity())
        if code in BEHIND:
            self._join_again(code)
        else:
            assert code in AGAIN | {"none"}, code

    def _join_again(self, code: str) -> None:
        self._own(())
        self._generation = -1
        if code in GONE:
            self._member_id = ""

    def _identity(self) -> dict[str, Any]:
        return {"generation_id": self._generation, "member_id": self._member_id, "group_instance_id": None}

    async def _join(self) -> None:
        code, found = await self._ask_coordinator(
            lambda found: found.error_code,
            "join_group",
            9,
            session_timeout=SESSION,
            rebalance_timeout=REBALANCE,
            member_id=self._member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription(TOPIC)),),
            reason=None,
        )
        if code == "member_id_required":
            self._member_id = found.member_id
        elif code in GONE:
            self._member_id = ""
        elif code == "none":
            await self._sync(found)
        else:
            assert code in AGAIN | BEHIND, code

    async def _sync(self, joined: Any) -> None:
        self._member_id, self._generation = joined.member_id, joined.generation_id
        members = [each.member_id for each in joined.members]  # of a leader alone
        shares = {member_id: self.facts.partitions[at :: len(members)] for at, member_id in enumerate(members)}
        assignments = tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=serialize_assignment(0, [(TOPIC, tuple(share))]))
            for member_id, share in shares.items()
        )
        code, found = await self._ask_coordinator(
            lambda found: found.error_code,
            "sync_group",
            5,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
            **self._identity(),
        )
        if code != "none":
            assert code in AGAIN | BEHIND, code
            self._join_again(code)
            return
        self._own(index for _, indexes in deserialize_assignment(found.assignment).partitions for index in indexes)

    async def _leave(self) -> None:
        identity = MemberIdentity(member_id=self._member_id, group_instance_id=None, reason=None)
        await self._ask_coordinator(lambda found: found.error_code, "leave_group", 5, members=(identity,))
