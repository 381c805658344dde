"""A Produce that waits for followers (acks=all) is answered, whatever becomes of its partition or its leader."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from protocol.durations import MILLISECOND
from tests.unit.broker.cluster.three_brokers import Cluster
from tests.unit.broker.cluster_rig import CONTROLLER
from tests.unit.broker.rig import Client
from tests.unit.broker.wire import answer, batch, produce

TIMEOUT_MS = 30_000
SOON_MS = 3_000
LEADER, FOLLOWER = 2, 3
"""The controller's node is a replica, too."""


class Waiting(Cluster):
    """A topic `orders` led by node 2, whose followers have stopped fetching, with a Produce that waits for them."""

    producer: Client

    def __init__(self) -> None:
        super().__init__(replicas=3, replica_lag_time_max_ms="600000")

    async def __aenter__(self) -> Waiting:
        await super().__aenter__()
        await self.create_replicated("orders")
        if self.leader(0, "orders") != LEADER:
            await self.move("orders", 0, LEADER)
            await self.clock.run(1_000)
        await self.produce(self.nodes[LEADER].connect(), "orders")
        self.hold_followers()
        self.producer = self.nodes[LEADER].connect()
        self.producer.send("produce", 9, **produce("orders", {0: batch(b"waits")}, timeout_ms=TIMEOUT_MS))
        await self.clock.run(100)
        assert not self.producer.replies()
        assert self.purgatory.watched == 1
        return self

    @property
    def purgatory(self) -> Any:
        return self.nodes[LEADER].node.replicas.produce_purgatory

    def partition(self, node_id: int = LEADER) -> Any:
        return self.nodes[node_id].node.replicas.find("orders", 0)

    def hold_followers(self) -> None:
        for node_id in (CONTROLLER, FOLLOWER):
            self.nodes[node_id].node.replicas.fetchers.leave(self.partition(node_id))

    def release_followers(self) -> None:
        for node_id in (CONTROLLER, FOLLOWER):
            self.nodes[node_id].node.replicas.fetchers.follow(self.partition(node_id))

    async def outcome(self, within_ms: float = SOON_MS) -> str:
        """The error code of the answer."""
        await self.clock.run(within_ms)
        (reply,) = self.producer.replies()
        name: str = answer(reply, "produce", 9).responses[0].partition_responses[0].error_code.name
        return name


async def _resigns(cluster: Waiting) -> None:
    await cluster.move("orders", 0, FOLLOWER)


async def _resigns_and_leads_again(cluster: Waiting) -> None:
    """Both in one delta: the node never sees that another one led."""
    cluster.network.delay_ms = 200
    await cluster.move("orders", 0, FOLLOWER)
    await cluster.move("orders", 0, LEADER)
    cluster.network.delay_ms = 0
    await cluster.clock.run(500)
    cluster.release_followers()


async def _is_deleted(cluster: Waiting) -> None:
    await cluster.during(cluster.nodes[CONTROLLER].delete("orders"))


async def _log_fails(cluster: Waiting) -> None:
    cluster.partition().log.fail(OSError(errno.EIO, "input/output error"))


async def _is_cut_off_from_the_controller(cluster: Waiting) -> None:
    """Until its session has lapsed, and others lead: what a node finds that was frozen (SIGSTOP)."""
    cluster.network.dead.add(cluster.nodes[LEADER].host)
    cluster.network.cut_host(cluster.nodes[LEADER].host)
    await cluster.clock.run(12_000)
    assert not cluster.producer.replies()
    cluster.network.dead.discard(cluster.nodes[LEADER].host)


async def _followers_go_on(cluster: Waiting) -> None:
    cluster.release_followers()


async def _a_follower_is_killed(cluster: Waiting) -> None:
    """The other one goes on; the high watermark passes once the dead one is fenced."""
    await cluster.kill(FOLLOWER)
    replicas = cluster.nodes[CONTROLLER].node.replicas
    replicas.fetchers.follow(cluster.partition(CONTROLLER))
    await cluster.clock.run(12_000)


TRANSITIONS: dict[str, tuple[Callable[[Waiting], Awaitable[None]], str]] = {
    "resigns": (_resigns, "not_leader_or_follower"),
    "deleted": (_is_deleted, "unknown_topic_or_partition"),
    "log fails": (_log_fails, "kafka_storage_error"),
    "cut off": (_is_cut_off_from_the_controller, "not_leader_or_follower"),
    "followers": (_followers_go_on, "none"),
    "a follower dies": (_a_follower_is_killed, "none"),
}


@pytest.mark.parametrize("transition", TRANSITIONS)
async def test_a_waiting_produce_is_answered_soon_after_each_transition(transition: str) -> None:
    happens, expected = TRANSITIONS[transition]
    async with Waiting() as cluster:
        await happens(cluster)
        assert await cluster.outcome() == expected
        assert cluster.purgatory.watched == cluster.purgatory.delayed == 0


async def test_a_waiting_produce_outlives_a_new_leader_epoch_of_the_same_leader() -> None:
    async with Waiting() as cluster:
        epoch = cluster.partition().leader_epoch
        await _resigns_and_leads_again(cluster)
        assert cluster.partition().leader_epoch == epoch + 2
        assert await cluster.outcome() in ("none", "not_leader_or_follower")
        assert cluster.purgatory.watched == 0


async def test_a_waiting_produce_is_answered_after_all_nodes_were_frozen() -> None:
    """All timers of a process that was stopped (SIGSTOP) are late when it goes on (SIGCONT)."""
    async with Waiting() as cluster:
        cluster.clock.stall(4 * TIMEOUT_MS)
        assert await cluster.outcome() in ("request_timed_out", "not_leader_or_follower"), "whichever comes first"
        cluster.release_followers()
        await cluster.clock.run(SOON_MS)
        await cluster.produce(cluster.nodes[cluster.leader(0, "orders")].connect(), "orders")


async def test_a_waiting_produce_ends_with_its_node() -> None:
    """The controlled shutdown lets others lead first."""
    async with Waiting() as cluster:
        await cluster.during(cluster.nodes[LEADER].node.stop())
        assert await cluster.outcome() == "not_leader_or_follower"
        del cluster.nodes[LEADER].node


async def test_a_waiting_produce_of_a_replica_that_moves_away_is_told_the_leader_has_changed() -> None:
    async with Waiting() as cluster:
        from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic

        asked = ReassignablePartition(partition_index=0, replicas=(CONTROLLER, FOLLOWER))
        topics = (ReassignableTopic(name="orders", partitions=(asked,)),)
        done = await cluster.ask(
            cluster.nodes[CONTROLLER].connect(),
            "alter_partition_reassignments",
            1,
            timeout=30_000 * MILLISECOND,
            topics=topics,
            allow_replication_factor_change=True,
        )
        assert done.error_code.name == "none"
        assert await cluster.outcome() == "not_leader_or_follower"
