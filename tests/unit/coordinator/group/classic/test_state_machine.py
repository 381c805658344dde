"""Random members do random things to a group: what must hold after each step, and in the end.

The members are real ones in what they send: they use the member id and generation that they were told last, and answer
to what they are told, unless the step lets them be late, silent, or start anew.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Future
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kio.schema.errors import ErrorCode

from coordinator.group.classic.group import LEGAL_PREDECESSORS, ClassicGroup
from protocol.errors import MessageTooLarge
from tests.unit.coordinator.group.rig import COMPLETING, EMPTY, GROUP, PREPARING, STABLE, Client, Rig
from tests.unit.coordinator.group.steps import assign_all, refused

SLOTS = 5
slots = st.integers(0, SLOTS - 1)
SESSION_MS = 10_000
REBALANCE_MS = 20_000
LONGEST_WAIT_MS = 5 * 60_000 + 2 * REBALANCE_MS + SESSION_MS
"""A new member's JoinGroup may wait longest of all."""


class GroupMachine(RuleBasedStateMachine):
    """Five slots for members, in clients of several versions: the last two are static ones.

    `parked` are the answers that are waited for. `leaders` are those told who is in a generation, by instance id where
    they have one, since a static leader's successor is told so too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop: AbstractEventLoop = asyncio.new_event_loop()
        self.parked: list[Future[Any]] = []
        self.leaders: dict[int, str] = {}
        self.assigned: dict[tuple[int, str], bytes] = {}
        self.syncing: dict[int, Future[Any]] = {}
        self.synced: dict[int, tuple[str, int]] = {}
        self.previous = EMPTY
        self.emptied_unnoticed = False

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    @initialize(delay=st.sampled_from([0, 3_000]))
    def begin(self, delay: int) -> None:
        self.rig = self.run(Rig.started(initial_rebalance_delay_ms=delay))
        self.clients = [self.new_client(slot) for slot in range(SLOTS)]

    def new_client(self, slot: int) -> Client:
        instance = f"instance-{slot}" if slot >= 3 else None
        return Client(
            *(self.rig, f"c{slot}"),
            instance=instance,
            protocols=("range", "sticky") if slot % 2 else ("sticky", "range"),
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            version=(3, 4, 9, 8, 9)[slot],
        )

    def sent(self, future: Future[Any]) -> None:
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.parked.append(future)
        self.settle()

    def settle(self) -> None:
        self.run(asyncio.sleep(0))
        for future in [one for one in self.parked if one.done()]:
            self.parked.remove(future)
            if future.exception() is None:
                self.heard(future.result())

    def heard(self, answer: Any) -> None:
        """In a generation there is one leader, and a member gets one assignment."""
        if getattr(answer, "leader", "") and answer.members:
            assert answer.leader == answer.member_id
            (instance,) = (m.group_instance_id for m in answer.members if m.member_id == answer.member_id)
            leader = instance or answer.member_id
            assert self.leaders.setdefault(answer.generation, leader) == leader

    # -- what members do

    @rule(slot=slots)
    def join(self, slot: int) -> None:
        self.sent(self.clients[slot].join())

    @rule(slot=slots, repeated=st.sampled_from([(), (0,), (0, 1), (1, 1)]))
    def join_with_other_protocols(self, slot: int, repeated: tuple[int, ...]) -> None:
        """In the other order; some may be named again."""
        client = self.clients[slot]
        both = tuple(dict.fromkeys(client.protocols))[::-1]
        client.protocols = both + tuple(both[index] for index in repeated)
        self.sent(client.join())

    @rule(slot=slots, leave_out=slots)
    def sync(self, slot: int, leave_out: int) -> None:
        """A leader assigns to all members, maybe but one; assignments from another member are ignored."""
        others = [client for number, client in enumerate(self.clients) if client.member_id and number != leave_out]
        self.sent(self.clients[slot].sync(assign_all(others)))

    @rule(slot=slots)
    def heartbeat(self, slot: int) -> None:
        self.sent(self.clients[slot].heartbeat())

    @rule(slot=slots)
    def leave(self, slot: int) -> None:
        self.sent(self.clients[slot].leave())

    @rule(slot=slots)
    def come_anew(self, slot: int) -> None:
        """The process of a member is another one, which knows nothing."""
        self.clients[slot] = self.new_client(slot)
        self.sent(self.clients[slot].join())

    @rule()
    def all_behave(self) -> None:
        """When everybody does what a client does, once a second, the group comes to rest with all of them in it."""
        for _ in range(90):
            for slot in range(SLOTS):
                self.behave(slot)
            self.run(self.rig.pass_ms(1_000))
            self.settle()
            group = self.rig.group
            generations = {client.member_id: client.generation for client in self.clients}
            if group.state is STABLE and generations == dict.fromkeys(group.members, group.generation):
                return
        raise AssertionError(f"no rest: {self.rig.group.state_name}, {self.rig.group.members.keys()}")

    def behave(self, slot: int) -> None:
        client = self.clients[slot]
        if client.is_joining or (slot in self.syncing and not self.syncing[slot].done()):
            return
        code = refused(client.heartbeat())
        if client.generation >= 0 and code is ErrorCode.none:
            if self.synced.get(slot) != (client.member_id, client.generation):
                self.synced[slot] = (client.member_id, client.generation)
                self.syncing[slot] = client.sync(assign_all(self.clients))
                self.sent(self.syncing[slot])
            return
        if code is not ErrorCode.rebalance_in_progress and client.generation >= 0:
            client.forget()
        joining = client.join()
        self.sent(joining)
        if joining.done() and refused(joining) in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            client.forget()

    @rule(ms=st.sampled_from([1, 500, 3_000, SESSION_MS - 1, SESSION_MS + 1, REBALANCE_MS + 1]))
    def time_passes(self, ms: int) -> None:
        self.run(self.rig.pass_ms(ms))
        self.settle()

    @rule(slot=slots, action=st.sampled_from(["join", "sync", "leave", "time_passes"]))
    def act_while_the_log_refuses(self, slot: int, action: str) -> None:
        group = self.rig.shard.groups.find(GROUP)
        was_empty = group is None or group.state is EMPTY
        self.rig.log.fail_with = MessageTooLarge()
        if action == "sync":
            self.sync(slot, leave_out=SLOTS)
        elif action == "time_passes":
            self.time_passes(SESSION_MS + 1)
        else:
            getattr(self, action)(slot)
        self.rig.log.fail_with = None
        self.emptied_unnoticed |= group is not None and group.state is EMPTY and not was_empty

    @rule()
    def restart(self) -> None:
        """What was recorded is there again, and whoever waited is told to look for the coordinator."""
        group = self.rig.shard.groups.find(GROUP)
        recorded = durable(group) if group is not None and self.is_recorded(group) else None
        self.run(self.rig.restart())
        self.settle()
        assert not self.parked
        self.emptied_unnoticed = False
        if recorded is not None:
            assert durable(self.rig.group) == recorded
        self.leaders.clear()  # generations that were never recorded come again
        self.assigned.clear()
        self.previous = EMPTY if group is None else self.rig.group.state

    # -- what must hold

    @invariant()
    def transitions_are_legal(self) -> None:
        for state in self.rig.states:
            assert self.previous in LEGAL_PREDECESSORS[state], (self.previous, state)
            self.previous = state
        self.rig.states.clear()

    @invariant()
    def the_group_is_of_one_piece(self) -> None:
        group = self.rig.shard.groups.find(GROUP)
        if group is None:
            return
        assert group.state in (EMPTY, PREPARING, COMPLETING, STABLE)
        assert (group.state is EMPTY) <= (not group.members)
        assert group.leader_id is None or group.leader_id in group.members
        assert group.awaiting_join == sum(member.awaiting_join is not None for member in group.members.values())
        assert set(group.static_ids.values()) == {m.member_id for m in group.members.values() if m.is_static}
        assert not set(group.pending) & set(group.members)
        if group.state in (COMPLETING, STABLE):
            assert group.members
            assert group.leader_id is not None
            assert all(group.protocol_name in {p.name for p in m.protocols} for m in group.members.values())
        if group.state is STABLE:
            assert not any(member.awaiting_join or member.awaiting_sync for member in group.members.values())
            for member in group.members.values():
                self.one_assignment(group, member.group_instance_id or member.member_id, member.assignment)
        for member in group.members.values():
            left_ms = self.rig.shard.groups.timeouts.left_ms(group.group_id, member.member_id)
            assert left_ms is not None or member.is_waiting, "nobody is in a group for ever"

    def one_assignment(self, group: ClassicGroup, who: str, assignment: bytes) -> None:
        assert self.assigned.setdefault((group.generation, who), assignment) == assignment

    @invariant()
    def what_is_recorded_is_so(self) -> None:
        group = self.rig.shard.groups.find(GROUP)
        records = self.rig.records()
        if group is None or not self.is_recorded(group):
            return
        last = records[-1]
        assert last is not None
        assert last.generation == group.generation
        assert {m.member_id: m.assignment for m in last.members} == {
            m.member_id: m.assignment for m in group.members.values()
        }

    def is_recorded(self, group: ClassicGroup) -> bool:
        """Whether the log has the group's state; not if it became empty while the log refused to note that."""
        self.emptied_unnoticed &= group.state is EMPTY
        return group.state in (EMPTY, STABLE) and not self.emptied_unnoticed

    def teardown(self) -> None:
        """Nobody waits for ever, and a group whose members are silent is empty."""
        if hasattr(self, "rig"):
            self.run(self.rig.pass_ms(LONGEST_WAIT_MS))
            self.settle()
            assert not self.parked
            group = self.rig.shard.groups.find(GROUP)
            assert group is None or group.state is EMPTY
            assert (self.rig.session_timers, self.rig.phase_timers) == (0, 0)
        self.loop.close()


def durable(group: ClassicGroup) -> tuple[Any, ...]:
    """What a restart must find of a group at rest."""
    members = {
        m.member_id: (m.group_instance_id, m.client_id, m.rebalance_timeout_ms, m.session_timeout_ms, m.assignment)
        for m in group.members.values()
    }
    chosen = {m.member_id: m.metadata(group.protocol_name) for m in group.members.values() if group.protocol_name}
    return group.state, group.generation, group.protocol_name, group.leader_id, members, chosen


TestGroup = pytest.mark.long(GroupMachine.TestCase)
TestGroup.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
