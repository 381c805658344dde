"""One shard of the group coordinator over a log in memory, in virtual time, and clients that speak to it."""

from __future__ import annotations

import itertools
from asyncio import Future
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Self
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatRequest
from kio.schema.types import GroupId
from kio.static.primitive import i32

from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.groups import JOIN, SYNC
from coordinator.group.classic.members import (
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    MemberIdentity,
    MemberProtocol,
    SyncAnswer,
    SyncRequest,
)
from coordinator.group.directory import GroupDirectory
from coordinator.group.group_coordinator_shard import ROWS, GroupCoordinatorShard
from coordinator.group.kinds import ConsumerGroupConfig, GroupConfig, GroupCounts, ShareGroupConfig, StreamsGroupConfig
from coordinator.group.modern.groups import ModernGroupServices, StateTopics
from coordinator.group.timeouts import SESSION
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.runtime import CoordinatorRuntime
from protocol.coordinator_records.group_records import GROUP_METADATA, GroupMetadataValue
from protocol.errors import KafkaError
from tests.doubles.clock import ManualClock
from tests.unit.coordinator.asking import ask
from tests.unit.coordinator.group.topics_in_memory import TopicsInMemory
from tests.unit.coordinator.memory_log import MemoryLog
from timing.wheel import TimingWheel

GROUP = "readers"

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState


class ShareStates:
    """A ShareStatePort: initializes at once, or keeps the requests while it is told to `hold` them."""

    def __init__(self) -> None:
        self.hold = False
        self.error: KafkaError | None = None
        self.initialized: list[tuple[str, UUID, int]] = []
        self.grown: set[UUID] = set()
        self.deleted: list[tuple[str, UUID]] = []
        self._held: list[Callable[[KafkaError | None], None]] = []

    def initialize(
        self,
        group_id: str,
        topics: StateTopics,
        state_epoch: int,
        done: Callable[[KafkaError | None], None],
        *,
        grown: Collection[UUID],
    ) -> None:
        self.grown = set(grown)
        self.initialized += [(group_id, topic, index) for topic, indexes in topics.items() for index in sorted(indexes)]
        self._held.append(done)
        if not self.hold:
            self.release()

    def release(self) -> None:
        held, self._held = self._held, []
        for done in held:
            done(self.error)

    def delete(self, group_id: str, topics: StateTopics) -> None:
        self.deleted += [(group_id, topic) for topic in topics]


class Rig:
    """`await Rig.started(...)`; `states` are those entered since the start or the last `clear()`."""

    def __init__(self, **config: int) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.config = GroupConfig(**config)
        self.consumer_config = ConsumerGroupConfig(assignment_interval=lambda: 0)
        self.share_config = ShareGroupConfig()
        self.share_state = ShareStates()
        self.streams_config = StreamsGroupConfig()
        self.topics = TopicsInMemory()
        self.counts = GroupCounts()
        self.states: list[GroupState] = []
        wheel = TimingWheel(self.clock)
        self._numbers = itertools.count(1)
        self.runtime: CoordinatorRuntime[GroupCoordinatorShard] = CoordinatorRuntime(
            "__consumer_offsets", ROWS, self._new_state, clock=self.clock, wheel=wheel
        )
        self.shard: GroupCoordinatorShard
        self._context: CoordinatorContext[Any] | None = None

    @classmethod
    async def started(cls, *, initial_rebalance_delay_ms: int = 0, **config: int) -> Self:
        rig = cls(initial_rebalance_delay_ms=initial_rebalance_delay_ms, **config)
        await rig.restart()
        return rig

    def _new_state(self, context: CoordinatorContext[Any]) -> GroupCoordinatorShard:
        self._context = context
        services = ModernGroupServices(
            self.topics,
            self.share_state,
            lambda: f"member-{next(self._numbers)}",
            self.consumer_config,
            self.share_config,
            self.streams_config,
        )
        groups = GroupDirectory(
            context, self.config, self.counts, lambda prefix: f"{prefix}-{next(self._numbers)}", services
        )
        groups.classic.entering = partial(self._trace, groups.classic.entering)
        self.shard = GroupCoordinatorShard(context, groups, self.config, self.counts)
        return self.shard

    def _trace(
        self, entering: Callable[[ClassicGroup, GroupState], None], group: ClassicGroup, state: GroupState
    ) -> None:
        """Note the states that the group under test goes through."""
        entering(group, state)
        if group.group_id == GROUP:
            self.states.append(state)

    async def restart(self) -> None:
        """The coordinator goes away and comes back with what is in the log."""
        self.runtime.load(0, self.log)
        await self.runtime.loaded()
        self.states.clear()

    @property
    def session_timers(self) -> int:
        """The timers that run of sessions in classic groups."""
        return sum(map(self.is_classic_session, self._timer_keys()))

    @property
    def phase_timers(self) -> int:
        """The timers of rebalances that run."""
        return sum(key[0] in (JOIN, SYNC) for key in self._timer_keys())

    def _timer_keys(self) -> Iterable[Any]:
        return () if self._context is None else self._context.timers

    def is_classic_session(self, key: tuple[str, ...]) -> bool:
        return key[0] == SESSION and key[1] not in self.shard.groups.modern.by_id

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.groups.classic.by_id.get(GROUP)
        assert group is not None
        return group

    async def pass_ms(self, ms: float) -> None:
        await self.clock.run(ms)

    def records(self) -> list[GroupMetadataValue | None]:
        """What is in the log about groups, oldest first; None is a tombstone."""
        return [
            None if record.value is None else GROUP_METADATA.decode_value(record.value)
            for record in self.log.records()
            if record.key is not None and GROUP_METADATA.ids[0] == int.from_bytes(record.key[:2], "big")
        ]

    def join_request(self, request: JoinRequest) -> Future[JoinAnswer]:
        return ask(self.runtime, lambda state: state.groups.join(request))

    def sync_request(self, request: SyncRequest) -> Future[SyncAnswer]:
        return ask(self.runtime, lambda state: state.groups.sync(request))

    def heartbeat_request(self, request: HeartbeatRequest) -> Future[ErrorCode]:
        return ask(self.runtime, lambda state: state.groups.heartbeat(request))

    def leave(self, *leavers: MemberIdentity) -> Future[LeaveAnswer]:
        return ask(self.runtime, lambda state: state.groups.leave(LeaveRequest(GROUP, leavers)))


class Client:
    """A member-to-be. It learns its member id and generation from the answers that it is given."""

    def __init__(
        self,
        rig: Rig,
        name: str = "client",
        *,
        instance: str | None = None,
        protocols: Iterable[str] = ("range",),
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 3,
    ) -> None:
        self.rig = rig
        self.name = name
        self.instance = instance
        self.protocols = tuple(MemberProtocol(protocol, subscription("topic")) for protocol in protocols)
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.version = version
        self._member_id = ""
        self._generation = -1
        self._joins: list[Future[JoinAnswer]] = []

    @property
    def member_id(self) -> str:
        self._learn()
        return self._member_id

    @member_id.setter
    def member_id(self, member_id: str) -> None:
        self._learn()
        self._member_id = member_id

    def forget(self) -> None:
        """Forget its member id and generation, as after UNKNOWN_MEMBER_ID."""
        self.member_id = ""
        self._generation = -1

    @property
    def generation(self) -> int:
        self._learn()
        return self._generation

    @property
    def is_joining(self) -> bool:
        """Whether a JoinGroup of it waits."""
        self._learn()
        return bool(self._joins)

    def join(self, reason: str | None = None) -> Future[JoinAnswer]:
        future = self.rig.join_request(
            JoinRequest(
                GROUP,
                self.member_id,
                self.instance,
                self.name,
                "/127.0.0.1",
                self.session_ms,
                self.rebalance_ms,
                "consumer",
                self.protocols,
                reason,
                member_id_required=self.version >= 4,
                can_skip_assignment=self.version >= 9,
            )
        )
        self._joins.append(future)
        return future

    def _learn(self) -> None:
        """From the joins answered meanwhile, in their order."""
        answered = [join for join in self._joins if join.done()]
        self._joins = [join for join in self._joins if not join.done()]
        for join in answered:
            if join.exception() is None and join.result().error in (ErrorCode.none, ErrorCode.member_id_required):
                self._member_id = join.result().member_id
                self._generation = join.result().generation

    def sync(self, assignments: dict[str, bytes] | None = None, **fields: Any) -> Future[SyncAnswer]:
        generation = fields.pop("generation", self.generation)
        return self.rig.sync_request(
            SyncRequest(GROUP, self.member_id, self.instance, generation, assignments or {}, **fields)
        )

    def heartbeat(self, generation: int | None = None) -> Future[ErrorCode]:
        return self.rig.heartbeat_request(
            HeartbeatRequest(
                group_id=GroupId(GROUP),
                generation_id=i32(self.generation if generation is None else generation),
                member_id=self.member_id,
                group_instance_id=self.instance,
            )
        )

    def leave(self) -> Future[LeaveAnswer]:
        return self.rig.leave(MemberIdentity(self.member_id, self.instance))


def subscription(*topics: str) -> bytes:
    """A ConsumerProtocolSubscription, version 0, with no user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"
