"""A broker whose active controller is lost while it waits for it: killed, frozen, cut off, or not active any more."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable
from typing import Any
from unittest.mock import patch

import pytest
from kio.schema.alter_partition.v3 import AlterPartitionRequest
from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest
from kio.schema.errors import ErrorCode

from broker.background import Stopped
from broker.config.broker_config import BrokerConfig
from broker.membership.broker_lifecycle import LifecycleState
from broker.membership.controller_channel import NoControllerError
from broker.membership.followed_metadata import Belonging, FollowedMetadata
from broker.membership.metadata_cache import MetadataCache
from broker.membership.publisher import Follower, Joining
from broker.peers.client import PeerNetwork
from controller.brokers import Registration
from controller.decision import NoQuota
from controller.quorum.metadata_batches import MetadataLogError
from protocol.durations import MILLISECOND
from protocol.errors import Timeout
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import MemoryFileSystem
from tests.unit.broker.cluster_rig import CONTROLLER, ClusterRig
from tests.unit.broker.membership.test_fetched_log import batch
from tests.unit.broker.membership.three_controllers import BROKER_EPOCH, Lost, ThreeControllers
from tests.unit.controller.quorum.support import ROOT, made_root, services

SESSION_MS = 9_000
STEP_MS = 50


class Broker:
    """The metadata of a broker with three controllers, and nothing else of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.controllers = ThreeControllers(self.clock)
        addresses = ",".join(f"{each.node_id}@{each.host}:9093" for each in self.controllers.controllers)
        config = BrokerConfig.of(
            {
                "node.id": "1",
                "process.roles": "broker",
                "controller.quorum.voters": addresses,
                "controller.listener.names": "CONTROLLER",
            }
        )
        who = Belonging(1, "cluster", [uuid.UUID(int=7)], tuple)
        network = PeerNetwork(self.clock, random.Random(1), self.controllers.network.connect)
        around: Any = None
        self.metadata = FollowedMetadata(
            services(made_root(MemoryFileSystem()), self.clock), ROOT, who, config, MetadataCache(), around, network
        )
        directories = [uuid.UUID(int=7)]
        registration = Registration(1, uuid.UUID(int=1), [], [], None, directories, is_broker=True, cordoned=[])
        self.joining = Joining(registration, -1, 1)

    async def within(self, limit_ms: float, work: Awaitable[Any]) -> Any:
        """The result of work that must be done by then."""
        task = asyncio.ensure_future(work)
        end_ms = self.clock.monotonic_ms() + limit_ms
        await settle()
        while not task.done() and self.clock.monotonic_ms() < end_ms:
            await self.clock.run(STEP_MS)
        assert task.done(), f"not done within {limit_ms} ms"
        return task.result()

    async def start(self) -> None:
        await self.within(1_000, self.metadata.open())
        await self.within(1_000, self.metadata.join(self.joining))
        await self.within(1_000, self.metadata.enter())

    async def close(self) -> None:
        await self.within(10_000, self.metadata.close())

    @property
    def successor_was_asked(self) -> list[str]:
        return self.controllers.controllers[1].asked


ways = pytest.mark.parametrize("how", Lost)


@ways
async def test_a_controller_lost_before_a_broker_starts(how: Lost) -> None:
    broker = Broker()
    broker.controllers.lose(how)
    await broker.within(SESSION_MS, broker.metadata.open())
    await broker.within(1_000, broker.metadata.join(broker.joining))
    await broker.close()


@ways
async def test_a_controller_lost_between_the_catch_up_and_the_registration(how: Lost) -> None:
    broker = Broker()
    await broker.within(1_000, broker.metadata.open())
    broker.controllers.lose(how)
    await broker.within(SESSION_MS, broker.metadata.join(broker.joining))
    assert broker.metadata.broker_epoch == BROKER_EPOCH
    assert broker.successor_was_asked.count("BrokerRegistration") == 1
    await broker.within(SESSION_MS, broker.metadata.enter())
    await broker.close()


@ways
async def test_a_controller_lost_while_the_registration_is_on_its_way(how: Lost) -> None:
    broker = Broker()
    await broker.within(1_000, broker.metadata.open())
    joining = asyncio.ensure_future(broker.metadata.join(broker.joining))
    await settle()
    broker.controllers.lose(how)
    await broker.within(SESSION_MS, joining)
    await broker.close()


@ways
async def test_a_controller_lost_between_the_registration_and_the_unfencing(how: Lost) -> None:
    broker = Broker()
    await broker.within(1_000, broker.metadata.open())
    await broker.within(1_000, broker.metadata.join(broker.joining))
    broker.controllers.lose(how)
    await broker.clock.run(20_000)  # the logs are opened meanwhile
    await broker.within(SESSION_MS, broker.metadata.enter())
    await broker.close()


@ways
async def test_a_controller_lost_while_the_directories_of_replicas_are_told_before_the_unfencing(how: Lost) -> None:
    broker = Broker()
    await broker.within(1_000, broker.metadata.open())
    await broker.within(1_000, broker.metadata.join(broker.joining))

    async def tell() -> None:
        broker.controllers.lose(how)
        await REQUESTS["AssignReplicasToDirs"](broker.metadata)

    await broker.within(SESSION_MS, broker.metadata.enter(tell))
    assert "AssignReplicasToDirs" in broker.successor_was_asked
    await broker.close()


async def test_a_start_ends_when_the_metadata_log_cannot_be_followed_before_the_unfencing() -> None:
    """The controllers unfence no broker that does not have its own registration: it would wait for that for ever."""
    broker = Broker()
    await broker.within(1_000, broker.metadata.open())
    await broker.within(1_000, broker.metadata.join(broker.joining))
    failures: list[str] = []
    broker.metadata.on_failure = failures.append
    broker.controllers.answers_fetch_with = ErrorCode.inconsistent_cluster_id
    broker.controllers.unfences = False
    with pytest.raises(MetadataLogError, match="not followed"):
        await broker.within(1_000, broker.metadata.enter())
    assert len(failures) == 1
    await broker.close()


async def test_a_heartbeat_that_fails_unexpectedly_is_followed_by_the_next_one() -> None:
    broker = Broker()
    await broker.start()
    offset, errors = broker.metadata.lifecycle._offset, [RuntimeError("a bug")]

    def fail_once() -> int:
        if errors:
            raise errors.pop()
        return offset()

    with patch.object(broker.metadata.lifecycle, "_offset", fail_once):
        await broker.clock.run(SESSION_MS)
    assert not errors
    assert broker.metadata.lifecycle.silence_ms < SESSION_MS
    await broker.close()


@ways
async def test_a_controller_lost_at_run_time_is_replaced_before_the_session_lapses(how: Lost) -> None:
    broker = Broker()
    await broker.start()
    broker.controllers.lose(how)
    for _ in range(200):
        await broker.clock.run(100)
        assert broker.metadata.lifecycle.silence_ms < SESSION_MS
    assert "BrokerHeartbeat" in broker.successor_was_asked
    await broker.close()


REQUESTS = {
    "AllocateProducerIds": lambda metadata: metadata.allocate_producer_ids(),
    "AlterPartition": lambda metadata: metadata.alter_partition(
        AlterPartitionRequest(broker_id=1, broker_epoch=1, topics=())
    ),
    "AssignReplicasToDirs": lambda metadata: metadata.assign_replicas_to_dirs(
        AssignReplicasToDirsRequest(broker_id=1, broker_epoch=1, directories=())
    ),
}


@ways
@pytest.mark.parametrize("request_name", REQUESTS)
async def test_a_request_that_meets_a_lost_controller_is_answered_by_the_next(how: Lost, request_name: str) -> None:
    broker = Broker()
    await broker.start()
    broker.controllers.lose(how)
    await broker.within(SESSION_MS, REQUESTS[request_name](broker.metadata))
    assert request_name in broker.successor_was_asked
    await broker.close()


@ways
async def test_a_controller_lost_while_a_change_of_the_metadata_is_applied(how: Lost) -> None:
    broker = Broker()
    await broker.start()
    done = asyncio.Event()

    async def prepare(*_: Any) -> None:  # making the logs of a thousand partitions, say
        await done.wait()

    broker.metadata.publisher.start([Follower("slow", lambda *_: None, prepare)])
    broker.controllers.log.append(batch(len(broker.controllers.log), 1, "slow"))
    await broker.clock.run(1_000)
    broker.controllers.lose(how)
    for _ in range(300):
        await broker.clock.run(100)
        assert broker.metadata.lifecycle.silence_ms < SESSION_MS
    image = broker.metadata.observer.image
    done.set()
    await broker.clock.run(1_000)
    assert broker.metadata.observer.image.offset == image.offset + 1
    await broker.close()


@ways
async def test_a_controller_lost_during_a_controlled_shutdown(how: Lost) -> None:
    broker = Broker()
    await broker.start()
    broker.controllers.lose(how)
    await broker.within(SESSION_MS, broker.metadata.leave())
    assert broker.metadata.lifecycle.state is LifecycleState.GONE
    await broker.close()


async def test_a_controlled_shutdown_is_given_up_when_no_controller_is_left() -> None:
    broker = Broker()
    await broker.start()
    broker.controllers.lose_all()
    await broker.within(SESSION_MS + 5_000, broker.metadata.leave())
    assert broker.metadata.lifecycle.state is LifecycleState.LEAVING
    await broker.close()


@pytest.mark.parametrize("request_name", REQUESTS)
async def test_requests_to_the_controllers_do_not_outlive_the_node(request_name: str) -> None:
    broker = Broker()
    await broker.start()
    broker.controllers.lose_all()
    asked = asyncio.ensure_future(REQUESTS[request_name](broker.metadata))
    await broker.clock.run(100)
    assert not asked.done()
    broker.metadata.stop_asking()
    with pytest.raises((NoControllerError, Timeout), match="this node"):
        await broker.within(100, asked)
    with pytest.raises((NoControllerError, Timeout), match="this node"):
        await broker.within(100, REQUESTS[request_name](broker.metadata))
    await broker.close()


async def test_a_node_that_waits_for_a_lost_controller_stops_in_good_order() -> None:
    async with ClusterRig(brokers=1) as cluster:
        await cluster.kill(CONTROLLER)
        node = cluster.nodes[2].node
        node.cluster.auto_topics.begin(["wanted"], NoQuota())
        assert await cluster.during(node.stop(), 2 * SESSION_MS) is Stopped.CLEAN
        del cluster.nodes[2].node


async def test_a_producer_is_sent_elsewhere_while_the_controller_that_gives_out_ids_is_lost() -> None:
    async with ClusterRig(brokers=1) as cluster:
        await cluster.kill(CONTROLLER)
        begun_ms = cluster.clock.monotonic_ms()
        answer = await cluster.ask(
            cluster.nodes[2].connect(),
            "init_producer_id",
            4,
            transactional_id=None,
            transaction_timeout=60_000 * MILLISECOND,
            producer_id=-1,
            producer_epoch=-1,
        )
        assert answer.error_code.name == "coordinator_load_in_progress"
        assert cluster.clock.monotonic_ms() - begun_ms < SESSION_MS
        await cluster.start(CONTROLLER)
