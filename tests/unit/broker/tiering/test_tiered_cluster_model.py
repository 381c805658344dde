"""A tiered topic of three replicas: leaders move and die, the store fails at any call; nothing acknowledged is lost.

Whoever reads gets exactly what was acknowledged, from the log's start on. In the end nothing is in the store that
nothing refers to, and nothing at all once the topic is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from protocol.remote_storage.segment import State
from tests.doubles.clock import settle
from tests.doubles.flaky_store import FlakyStore
from tests.unit.broker.cluster_rig import CONTROLLER
from tests.unit.broker.tiering.tiered_cluster import TieredCluster

T = TypeVar("T")
NODES = (1, 2, 3)
TOPIC, METADATA = "t", "__remote_log_metadata"
TROUBLE_MS = 2_500
SESSION_MS = 12_000
"""After this time without a sign of life another broker leads."""


class TieredClusterMachine(RuleBasedStateMachine):
    """`dead`: the broker that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dead: int | None = None
        self.values: list[bytes] = []
        self.run(self.begin())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def begin(self) -> None:
        self.cluster = TieredCluster()
        self.store = self.cluster.store = FlakyStore(self.cluster.store)
        await self.cluster.__aenter__()
        await self.cluster.create_tiered(TOPIC, (2, 3, 1), min_insync_replicas="1", retention_bytes="6000")

    @property
    def alive(self) -> list[int]:
        return [node_id for node_id in NODES if node_id != self.dead]

    # -- what happens

    @rule(count=st.integers(1, 12), size=st.integers(1, 120))
    def append(self, count: int, size: int) -> None:
        new = [b"%d" % (len(self.values) + number) + b"x" * size for number in range(count)]
        self.run(self.cluster.append(*new, topic=TOPIC))
        self.values += new

    @rule(to=st.sampled_from(NODES))
    def move_the_leader(self, to: int) -> None:
        if to in self.cluster.in_sync(TOPIC):
            self.run(self.cluster.move(to, TOPIC))

    @rule(to=st.sampled_from(NODES), index=st.integers(0, 1), running_ms=st.integers(0, 1_500))
    def move_a_leader_of_the_metadata(self, to: int, index: int, running_ms: int) -> None:
        known = self.cluster.nodes[CONTROLLER].node.cluster.cache.image.topics.get(METADATA)
        assert known is not None
        self.run(self.cluster.clock.run(running_ms))
        if to in known.partitions[index].isr:
            self.run(self.cluster.move(to, METADATA, index))

    @precondition(lambda self: self.dead is None)
    @rule(node_id=st.sampled_from((2, 3)), running_ms=st.integers(0, 1_500))
    def kill(self, node_id: int, running_ms: int) -> None:
        """In the middle of a round of copies, perhaps. The controller stays."""
        self.run(self.cluster.clock.run(running_ms))
        if len(self.cluster.in_sync(TOPIC)) > 1:
            self.run(self.cluster.kill(node_id))
            self.dead = node_id
            self.run(self.cluster.clock.run(SESSION_MS))

    @precondition(lambda self: self.dead is not None)
    @rule()
    def start(self) -> None:
        assert self.dead is not None
        self.run(self.cluster.start(self.dead))
        self.dead = None

    @precondition(lambda self: self.dead is None)
    @rule(node_id=st.sampled_from(NODES))
    def lose_a_replica(self, node_id: int) -> None:
        """It comes back empty."""
        others = [one for one in NODES if one != node_id]
        if not set(others) & set(self.cluster.in_sync(TOPIC)):
            return
        self.run(self.cluster.reassign(others, TOPIC))
        self.run(self.cluster.clock.run(5_000))
        self.run(self.cluster.reassign([*others, node_id], TOPIC))
        self.run(self.cluster.clock.run(500))

    @rule(calls=st.lists(st.sampled_from(("fine", "before", "after")), min_size=1, max_size=12))
    def let_the_store_fail(self, calls: list[str]) -> None:
        """At some of its next calls: before it has done anything, or after it has done all."""
        self.store.coming = list(calls)
        self.run(self.cluster.clock.run(TROUBLE_MS))
        self.store.coming = []

    @rule(ms=st.sampled_from((300, 1_500, 5_000)))
    def pass_time(self, ms: int) -> None:
        self.run(self.cluster.clock.run(ms))

    # -- what must hold

    @rule()
    def compare(self) -> None:
        """Each replica in sync gives what was acknowledged; the high watermark may be late on a follower."""
        leader = self.cluster.leader(TOPIC)
        start = self.cluster.partition(leader, TOPIC).log_start_offset
        assert self.run(self.cluster.read_all(start, topic=TOPIC)) == self.values[start:]
        for node_id in set(self.cluster.in_sync(TOPIC)) - {leader, self.dead}:
            start = self.cluster.partition(node_id, TOPIC).log_start_offset
            found = self.run(self.cluster.read_all(start, node_id, TOPIC))
            assert found == self.values[start : start + len(found)]

    def teardown(self) -> None:
        try:
            if self.dead is not None:
                self.start()
            self.run(self.cluster.clock.run(140_000))  # what a dead leader was copying is a leftover now
            assert self.cluster.in_sync(TOPIC) == list(NODES)
            self.compare()
            leader = self.cluster.leader(TOPIC)
            segments = self.cluster.tier(leader).partitions[TOPIC, 0].tier.segments
            assert all(one.state is State.COPY_FINISHED for one in segments)
            assert {one.segment_id for one in self.cluster.stored()} == {one.id for one in segments}
            assert self.cluster.tier(leader).partitions[TOPIC, 0].pending() == []
            self.run(self.cluster.delete(TOPIC))
            self.run(self.cluster.clock.run(5_000))
            assert self.cluster.stored() == []
            self.run(self.cluster.__aexit__(None, None, None))
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.run(settle())
            self.loop.close()


SHORT = settings(
    max_examples=5,
    stateful_step_count=12,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),  # to shrink a life takes minutes
)


class LongTieredClusterMachine(TieredClusterMachine):
    """The same, for many and longer lives."""


TestTieredCluster = pytest.mark.long(TieredClusterMachine.TestCase)
TestTieredCluster.settings = SHORT
TestTieredClusterForLong = pytest.mark.torture(LongTieredClusterMachine.TestCase)
TestTieredClusterForLong.settings = settings(SHORT, derandomize=False, max_examples=40, stateful_step_count=30)
