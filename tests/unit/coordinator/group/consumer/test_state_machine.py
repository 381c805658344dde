"""Random members of both protocols do random things to a group, whose topics change: what holds after each step.

In the end, when everybody does what a client does, the group comes to rest with everybody having its part.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.consumer.assignment import Partitions
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.heartbeat import heartbeat_of_any, unchanged_member
from coordinator.group.consumer.member import LEFT_FOR_A_WHILE
from coordinator.group.consumer.messages import ConsumerHeartbeatAnswer
from coordinator.group.consumer.states import ConsumerGroupState
from coordinator.group.group_coordinator_shard import ROWS
from coordinator.runtime.coordinator_loader import LogReplay
from protocol.errors import MessageTooLarge, NotEnoughReplicas
from tests.unit.coordinator.group.consumer.clients import sign_of_life
from tests.unit.coordinator.group.consumer.machine_members import REBALANCE_MS, Actor, Classic, Modern
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, durable, log_tells
from tests.unit.coordinator.group.rig import GROUP, STABLE

SESSION_MS = 30_000
STATIC = 2
slots = st.integers(0, 5)
names = st.sampled_from("abc")

BEGINNING = {"a": 4, "b": 1}


class ConsumerGroupMachine(RuleBasedStateMachine):
    """Six members: three of the consumer protocol (the last one static), one with an expression, two classic ones.

    `mirror` is another coordinator, which only reads the log. `uncertain` is what classic members owned when
    their group was downgraded: as in Kafka it then counts as given up, which they learn when they join again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop: AbstractEventLoop = asyncio.new_event_loop()
        self.mirrored = 0
        self.before: tuple[type, int, dict[str, int]] | None = None
        self.uncertain: dict[Classic, Partitions] = {}
        self.most_partitions = dict(BEGINNING)

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    @initialize(may_downgrade=st.booleans(), first=st.sampled_from(["nobody", "classic members", "everybody"]))
    def begin(self, may_downgrade: bool, first: str) -> None:
        self.rig = self.run(ConsumerRig.having(BEGINNING, session_timeout_ms=SESSION_MS, may_downgrade=may_downgrade))
        self.mirror = self.run(self.rig.replayed())
        self.actors: list[Actor] = [
            Modern(self.rig, 0, "a"),
            Modern(self.rig, 1, "a", "b", assignor="range"),
            Modern(self.rig, STATIC, "a", static=True),
            Modern(self.rig, 3, regex="[bc]"),
            Classic(self.rig, 4, "a", "b", cooperative=True),
            Classic(self.rig, 5, "a"),
        ]
        for actor in {"nobody": [], "classic members": self.actors[4:], "everybody": self.actors}[first] * 3:
            actor.act()
            self.run(self.rig.pass_ms(5))

    # -- what members do

    @rule(slot=slots, loses_answer=st.booleans(), gives_up=st.booleans(), brief=st.booleans())
    def act(self, slot: int, loses_answer: bool, gives_up: bool, brief: bool) -> None:
        self.actors[slot].act(loses_answer=loses_answer, gives_up=gives_up, brief=brief)
        self.settle()

    @rule(rounds=st.integers(1, 2))
    def all_act(self, rounds: int) -> None:
        for actor in self.actors * rounds:
            if actor.is_inside:
                actor.act()
                self.check()

    @rule(slot=slots)
    def leave(self, slot: int) -> None:
        self.actors[slot].leave()
        self.settle()

    @rule()
    def go_away_for_a_while(self) -> None:
        self.actors[STATIC].leave(LEFT_FOR_A_WHILE)

    @rule(slot=slots)
    def vanish(self, slot: int) -> None:
        """The process ends without a word; the next one knows nothing."""
        self.actors[slot].is_inside = False
        self.actors[slot].begin_anew()

    @rule(slot=st.sampled_from([0, 1, 2, 4, 5]), topics=st.sampled_from([("a",), ("b",), ("a", "c")]))
    def subscribe(self, slot: int, topics: tuple[str, ...]) -> None:
        self.actors[slot].wants(*topics)

    # -- what else happens

    @rule(name=names, partitions=st.integers(1, 5))
    def change_topic(self, name: str, partitions: int) -> None:
        """It is created, grows, or is deleted; when created again it has no fewer partitions than ever.

        With fewer, a classic group that still has the former ones cannot go over (see `test_upgrade`).
        """
        image = self.rig.topics.by_name(name)
        if image is None:
            self.most_partitions[name] = max(partitions, self.most_partitions.get(name, 0))
            self.rig.create(name, self.most_partitions[name])
        elif partitions > image.partition_count:
            self.most_partitions[name] = max(partitions, self.most_partitions.get(name, 0))
            self.rig.grow(name, partitions)
        else:
            self.rig.drop(name)

    @rule(ms=st.sampled_from([1_000, 10_001, SESSION_MS - 1_000]))
    def time_passes(self, ms: int) -> None:
        self.run(self.rig.pass_ms(ms))
        self.settle()

    @rule()
    def restart(self) -> None:
        self.run(self.rig.restart())
        self.settle()
        self.forget_what_was_not_recorded()

    @rule(slot=slots, error=st.sampled_from([MessageTooLarge(), NotEnoughReplicas()]))
    def act_while_the_log_refuses(self, slot: int, error: MessageTooLarge | NotEnoughReplicas) -> None:
        self.rig.log.fail_with = error
        self.actors[slot].act()
        self.rig.log.fail_with = None
        self.run(self.rig.runtime.loaded())
        self.settle()
        self.forget_what_was_not_recorded()

    @precondition(lambda self: any(actor.is_inside for actor in self.actors))
    @rule()
    def all_behave(self) -> None:
        """A heartbeat every three seconds, and the group comes to rest, even if a member that is away stays away."""
        for _ in range(30):
            for actor in self.actors:
                if actor.is_inside:
                    actor.act()
                    self.check()
            self.run(self.rig.pass_ms(3_000))
            self.settle()
            self.check()
            if self.is_at_rest():
                return
        raise AssertionError(f"no rest: {durable(self.rig.consumers)}")

    def is_at_rest(self) -> bool:
        group = self.rig.any_group
        inside = [actor for actor in self.actors if actor.is_inside]
        if isinstance(group, ClassicGroup):
            return group.state is STABLE and all(
                isinstance(actor, Classic) and actor.client.generation == group.generation and actor.is_synced
                for actor in inside
            )
        assert isinstance(group, ConsumerGroup)
        if group.state is not ConsumerGroupState.STABLE:
            return False
        if group.members.keys() != {actor.member_id for actor in inside}:
            return False
        if any(group.target.get(actor.member_id, {}) != actor.owned for actor in inside):
            return False
        if not group.is_fresh:  # as in Kafka, no heartbeat of a classic member makes the group look at its topics again
            return not any(isinstance(actor, Modern) for actor in inside)
        for name in group.subscribed_topics:
            image = self.rig.topics.by_name(name)
            if image is not None:
                owned = [index for actor in inside for index in actor.owned.get(image.id, ())]
                assert sorted(owned) == [*range(image.partition_count)], "each partition is one member's"
        return True

    # -- what must hold

    def settle(self) -> None:
        self.run(asyncio.sleep(0))
        for actor in self.actors:
            actor.settle()

    def forget_what_was_not_recorded(self) -> None:
        """Generations of a classic group that were not through come again."""
        if isinstance(self.rig.any_group, ClassicGroup):
            self.before = None

    @invariant()
    def check(self) -> None:
        if hasattr(self, "rig"):
            group = self.rig.any_group
            self.epochs_rise(group)
            self.the_log_tells_it(group)
            if isinstance(group, ConsumerGroup):
                self.partitions_have_one_owner(group)
                self.everybody_is_timed(group)
                self.signs_of_life_change_nothing(group)

    def epochs_rise(self, group: Any) -> None:
        """Of a group that has members, and of each of them; a group that was empty may begin anew."""
        if group is None or group.is_empty:
            self.before = None
            return
        if isinstance(group, ConsumerGroup):
            number = group.epoch
            epochs = {
                member.member_id: member.epoch for member in group.members.values() if member.epoch != LEFT_FOR_A_WHILE
            }
            assert number >= group.assignment_epoch
            assert all(0 <= epoch <= group.assignment_epoch for epoch in epochs.values())
        else:
            number, epochs = group.generation, {}
        if self.before is not None:
            kind, earlier, of_members = self.before
            assert number >= earlier
            assert all(epoch >= of_members.get(member_id, epoch) for member_id, epoch in epochs.items())
            if kind is ConsumerGroup and isinstance(group, ClassicGroup):
                self.uncertain = {one: one.owned for one in self.actors if isinstance(one, Classic)}
        self.before = (type(group), number, epochs)

    def the_log_tells_it(self, group: Any) -> None:
        """To a reader that follows it."""
        written = self.rig.log.written
        for batch in written[self.mirrored :]:
            for _ in LogReplay(ROWS, self.mirror.shard, "mirror").steps(batch):
                pass
        self.mirrored = len(written)
        read = self.mirror.any_group
        assert type(read) is type(group)
        if isinstance(group, ConsumerGroup) and isinstance(read, ConsumerGroup):
            assert durable(read) == durable(group)
            assert [*read.members] == [*group.members]

    def partitions_have_one_owner(self, group: ConsumerGroup) -> None:
        """In the coordinator's books, and as live members believe that have not been removed."""
        for owned in (
            [member.assigned for member in group.members.values()]
            + [member.pending_revocation for member in group.members.values()],
            [actor.owned for actor in self.actors if self.is_certain(actor) and actor.member_id in group.members],
        ):
            partitions = [(topic, index) for one in owned for topic, indexes in one.items() for index in indexes]
            assert len(partitions) == len(set(partitions)), owned

    def is_certain(self, actor: Actor) -> bool:
        return not isinstance(actor, Classic) or self.uncertain.get(actor) is not actor.owned

    def everybody_is_timed(self, group: ConsumerGroup) -> None:
        """Nobody is in a group for ever."""
        timers = self.rig.timers
        assert all(f"session of {member_id}" in timers for member_id in group.members)

    def signs_of_life_change_nothing(self, group: ConsumerGroup) -> None:
        """Where no more is done about them than to note them, the long way comes to the same."""
        groups = self.rig.shard.groups.consumer
        for member in group.members.values():
            request = sign_of_life(member.member_id, member.epoch)
            if unchanged_member(groups, request) is not None:
                outcome = heartbeat_of_any(groups, request)
                assert not outcome.records
                interval_ms = groups.config.heartbeat_interval_ms
                assert outcome.reply == ConsumerHeartbeatAnswer(member.member_id, member.epoch, interval_ms)

    def teardown(self) -> None:
        """Nobody waits for ever; a group whose members are silent is empty; the log, compacted, tells the same."""
        if hasattr(self, "rig"):
            assert self.run(log_tells(self.rig))
            self.run(self.rig.pass_ms(SESSION_MS + 5 * 60_000 + REBALANCE_MS))
            self.settle()
            assert all(not isinstance(actor, Classic) or actor.waits_for is None for actor in self.actors)
            assert self.rig.any_group is None or self.rig.any_group.is_empty
            assert self.rig.timers == []
            assert (self.rig.session_timers, self.rig.phase_timers) == (0, 0)
            assert self.run(log_tells(self.rig))
            assert self.rig.shard.groups.find(GROUP) is self.rig.any_group
        self.loop.close()


TestConsumerGroup = ConsumerGroupMachine.TestCase
TestConsumerGroup.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
