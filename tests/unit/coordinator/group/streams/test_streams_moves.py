"""Whatever members do, no task is active twice, no process has one in two roles, and in the end all are assigned."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.group.streams.group import NO_TASKS, StreamsGroup, Task, each_task
from protocol.errors import FencedMemberEpoch, KafkaError, UnknownMemberId
from tests.unit.coordinator.group.streams.rig import GROUP, Client, StreamsRig, topology

PROCESSES = ("p", "q", "r")
MEMBERS = tuple(f"{process}{number}" for process in PROCESSES for number in range(2))
STEP = st.one_of(
    st.tuples(st.just("beat"), st.sampled_from(MEMBERS)),
    st.tuples(st.just("slow"), st.sampled_from(MEMBERS)),
    st.tuples(st.just("leave"), st.sampled_from(MEMBERS)),
    st.tuples(st.sampled_from(("grow", "restart", "wait", "replicas")), st.just("")),
)


class World:
    """The group, and its members as they see themselves."""

    def __init__(self, rig: StreamsRig) -> None:
        self.rig = rig
        self.clients: dict[str, Client] = {}
        self.partitions = 2

    async def step(self, kind: str, member: str) -> None:
        if kind in ("beat", "slow"):
            self._beat(member, says_nothing=kind == "slow")
        elif kind == "leave" and member in self.clients:
            client = self.clients.pop(member)
            if client.epoch:
                self._send(lambda: self.rig.send(member, -1))
        elif kind == "grow" and self.partitions < 4:
            self.partitions += 1
            self.rig.topics.grow("a", self.partitions)
            self.rig.topics.grow("c", self.partitions)
            self.rig.topic_changed("a")
        elif kind == "restart":
            await self.rig.restart()
        elif kind == "wait":
            self.rig.clock.advance(20_000)
        elif kind == "replicas":
            overrides = self.rig.streams_config.overrides
            assert isinstance(overrides, dict)
            before = overrides.get(GROUP, {"num.standby.replicas": 0})["num.standby.replicas"]
            overrides[GROUP] = {"num.standby.replicas": 1 - before}
        self.check()

    def _beat(self, member: str, *, says_nothing: bool = False) -> None:
        """A heartbeat of a member, which joins if it must. One that says nothing has given up nothing yet."""
        client = self.clients.setdefault(member, Client(self.rig, member, topology("a", stateful=True)))
        fields: dict[str, Any] = {} if client.epoch else {"process_id": member[0]}
        if says_nothing and client.epoch:
            fields["owned"] = None
        if not self._send(lambda: client.beat(**fields)):
            client.epoch, client.owned = 0, NO_TASKS

    def _send(self, send: Callable[[], object]) -> bool:
        """Whether it went well; a member that is not known any more must join."""
        try:
            send()
        except (FencedMemberEpoch, UnknownMemberId):
            return False
        except KafkaError as error:
            raise AssertionError(f"not expected: {error!r}") from error
        return True

    def check(self) -> None:
        group = self.rig.shard.groups.modern.find(StreamsGroup, GROUP)
        if group is None:
            return
        active: Counter[Task] = Counter()
        roles: Counter[tuple[str, Task]] = Counter()
        for member in group.members.values():
            for tasks in (member.assigned, member.pending_revocation):
                active.update(each_task(tasks.active))
                roles.update((member.process_id, task) for role in tasks for task in each_task(role))
        assert not [task for task, count in active.items() if count > 1]
        assert not [task for task, count in roles.items() if count > 1]

    def settle(self) -> None:
        for _ in range(8):
            for name in list(self.clients):
                self._beat(name)
        self.check()
        if self.clients:
            tasks = sorted(task for client in self.clients.values() for task in each_task(client.owned.active))
            assert tasks == [("0", index) for index in range(self.partitions)]
            assert self.rig.streams.state_name == "Stable"


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=30))
def test_tasks_move_safely(steps: Sequence[tuple[str, str]]) -> None:
    async def run() -> None:
        world = World(await StreamsRig.having({"a": 2, "c": 2}))
        for kind, member in steps:
            await world.step(kind, member)
        world.settle()

    asyncio.run(run())
