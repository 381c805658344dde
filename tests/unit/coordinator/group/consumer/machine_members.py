"""Members for the state machine: they do what clients do, one step at a time, and may lose an answer."""

from __future__ import annotations

from asyncio import Future
from typing import Any

from kio.schema.errors import ErrorCode

from coordinator.group.classic.members import JoinAnswer
from coordinator.group.kinds import GroupType
from protocol.consumer_protocol import deserialize_subscription
from protocol.coordinator_records.record_schema import Partitions
from protocol.errors import KafkaError
from tests.unit.coordinator.group.consumer.clients import (
    ClassicConsumer,
    ConsumerClient,
    assignment,
    partitions_in,
    union,
)
from tests.unit.coordinator.group.consumer.rig import ConsumerRig
from tests.unit.coordinator.group.steps import refused

REBALANCE_MS = 20_000
CLASSIC_SESSION_MS = 10_000
RETRIES = {
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.unknown_server_error,
    ErrorCode.unreleased_instance_id,
}


class Modern:
    """A member of the consumer protocol; each life of it has another member id."""

    def __init__(
        self,
        rig: ConsumerRig,
        slot: int,
        *topics: str,
        regex: str | None = None,
        static: bool = False,
        assignor: str | None = None,
    ) -> None:
        self.rig = rig
        self.name = f"m{slot}"
        self.topics = topics
        self.regex = regex
        self.instance = f"i{slot}" if static else None
        self.assignor = assignor
        self.lives = 0
        self.is_inside = False
        self.begin_anew()

    def begin_anew(self) -> None:
        self.lives += 1
        self.client = ConsumerClient(
            self.rig,
            f"{self.name}.{self.lives}",
            *self.topics,
            regex=self.regex,
            instance=self.instance,
            rebalance_ms=REBALANCE_MS,
            assignor=self.assignor,
        )
        self.assigned: Partitions = {}
        self.tells_all = True

    @property
    def member_id(self) -> str:
        return self.client.member_id

    @property
    def owned(self) -> Partitions:
        return self.client.owned

    def wants(self, *topics: str) -> None:
        self.topics = self.client.topics = topics
        self.tells_all = True

    def act(self, *, loses_answer: bool = False, gives_up: bool = True, brief: bool = False) -> None:
        """A heartbeat; after a lost answer, with all there is to tell."""
        self.is_inside = True
        client = self.client
        if gives_up:
            client.owned = self.assigned
        changes: dict[str, Any] = {}
        if client.epoch and not self.tells_all:
            changes = {
                "rebalance_timeout_ms": -1,
                "topics": None,
                "regex": None,
                "assignor": None,
                "owned": None if brief else client.owned,
            }
        future = client.send(**changes)
        error = future.exception()
        if loses_answer:
            self.tells_all = True
        elif error is None:
            answer = future.result()
            self.tells_all = False
            client.epoch = answer.member_epoch
            if answer.assigned is not None:
                self.assigned = answer.assigned
                client.owned = answer.assigned if gives_up else union(client.owned, answer.assigned)
        else:
            self.refused(error)

    def refused(self, error: BaseException) -> None:
        assert isinstance(error, KafkaError)
        self.tells_all = True
        if error.code is ErrorCode.fenced_instance_id:
            self.begin_anew()
        elif error.code not in RETRIES:
            assert error.code in (
                ErrorCode.fenced_member_epoch,
                ErrorCode.unknown_member_id,
                ErrorCode.group_id_not_found,
            ), error
            self.client.forget()
            self.assigned = {}

    def leave(self, epoch: int = -1) -> None:
        """A process that comes back is another one."""
        refused_with = self.client.send(member_epoch=epoch).exception()
        assert refused_with is None or isinstance(refused_with, KafkaError)
        self.is_inside = False
        self.begin_anew()

    def settle(self) -> None:
        """Nothing is waited for."""


class Classic:
    """A member of the classic protocol: eager, but in a consumer group the one that is `cooperative`."""

    def __init__(self, rig: ConsumerRig, slot: int, *topics: str, cooperative: bool = False) -> None:
        self.rig = rig
        self.name = f"c{slot}"
        self.topics = topics
        self.cooperative = cooperative
        self.is_inside = False
        self.begin_anew()

    def begin_anew(self) -> None:
        self.client = ClassicConsumer(
            self.rig, self.name, *self.topics, session_ms=CLASSIC_SESSION_MS, rebalance_ms=REBALANCE_MS
        )
        self.waits_for: Future[Any] | None = None
        self.joined: JoinAnswer | None = None
        self.is_synced = False
        self.joins_next = True
        self.give_up()

    def give_up(self) -> None:
        self.client.owned = {}
        self.owned: Partitions = {}

    @property
    def member_id(self) -> str:
        return self.client.member_id

    def wants(self, *topics: str) -> None:
        self.topics = self.client.topics = topics
        self.joins_next = self.joins_next or self.waits_for is None

    def act(self, *, loses_answer: bool = False, gives_up: bool = True, brief: bool = False) -> None:
        """The next request that is due; nothing while one waits for its answer."""
        self.is_inside = True
        self.settle()
        if self.waits_for is not None:
            return
        if self.joins_next and (self.client.generation < 0 or self.is_known()):
            self.join(loses_answer)
        elif self.client.generation >= 0 and not self.is_synced:
            self.sync(loses_answer)
        elif self.client.generation >= 0:
            self.is_known()

    def is_known(self) -> bool:
        """Who has been expelled learns it before it joins again with what it owned."""
        code = refused(self.client.heartbeat())
        if code is ErrorCode.rebalance_in_progress:
            self.joins_next = True
        elif code is not ErrorCode.none:
            self.refused(code)
            return False
        return True

    def join(self, loses_answer: bool) -> None:
        group = self.rig.any_group
        if not self.cooperative or group is None or group.group_type is not GroupType.CONSUMER:
            self.give_up()
        self.client.cooperative = self.cooperative
        future = self.client.join()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        if loses_answer:
            self.client._joins.remove(future)
        else:
            self.waits_for = future
            self.settle()

    def sync(self, loses_answer: bool) -> None:
        assert self.joined is not None
        leads = self.joined.leader == self.client.member_id
        future = self.client.sync(self.shares(self.joined) if leads else None)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        if not loses_answer:
            self.waits_for = future
            self.settle()

    def shares(self, joined: JoinAnswer) -> dict[str, bytes]:
        """In a classic group the leader hands out each partition in turn."""
        shares: dict[str, dict[str, set[int]]] = {member.member_id: {} for member in joined.members}
        wants = {member.member_id: deserialize_subscription(member.metadata).topics for member in joined.members}
        for name in sorted({topic for topics in wants.values() for topic in topics}):
            image = self.rig.topics.by_name(name)
            takers = [member_id for member_id, topics in wants.items() if name in topics]
            for index in range(0 if image is None else image.partition_count):
                shares[takers[index % len(takers)]].setdefault(name, set()).add(index)
        return {
            member_id: assignment({name: frozenset(indexes) for name, indexes in share.items()})
            for member_id, share in shares.items()
        }

    def settle(self) -> None:
        """Take in the answer that it waits for, if it is there."""
        future = self.waits_for
        if future is None or not future.done():
            return
        self.waits_for = None
        code = refused(future)
        if code is ErrorCode.rebalance_in_progress:
            self.joins_next = True
        elif code not in (ErrorCode.none, ErrorCode.member_id_required):
            self.refused(code)
        elif isinstance(answer := future.result(), JoinAnswer):
            self.client.generation  # noqa: B018  it takes its id and generation in
            self.joined = answer
            self.joins_next = code is ErrorCode.member_id_required
            self.is_synced = False
        else:
            self.is_synced = True
            self.client.owned = partitions_in(answer.assignment)
            self.owned = self.rig.of(
                **{name: [*ids] for name, ids in self.client.owned.items() if self.rig.topics.by_name(name)}
            )

    def refused(self, code: ErrorCode) -> None:
        if code in RETRIES:
            return
        if code is ErrorCode.illegal_generation:
            self.client._generation = -1
            self.joins_next = True
            self.give_up()
        else:
            assert code in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id), code
            self.begin_anew()

    def leave(self, epoch: int = -1) -> None:
        self.client.leave().exception()
        self.is_inside = False
        self.begin_anew()


Actor = Modern | Classic
