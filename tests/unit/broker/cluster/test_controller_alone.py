"""A node that is a controller and no broker: whole nodes in memory and in virtual time."""

from __future__ import annotations

import pytest

from metadata.image import MetadataImage
from storage.folders.log_dirs import LogDirError
from tests.doubles.files import Unsynced
from tests.unit.broker.cluster_rig import CONTROLLER, ClusterRig, NodeRig
from tests.unit.broker.scraping import samples

SESSION_MS = 9_000
GAUGE = "kafka_controller_kafkacontroller_"


def image_of(node: NodeRig) -> MetadataImage:
    return node.node.cluster.cache.image


def leaders(cluster: ClusterRig, topic: str) -> set[int]:
    found = image_of(cluster.nodes[CONTROLLER]).topics.get(topic)
    assert found is not None
    return {partition.leader for partition in found.partitions.values()}


def gauge(cluster: ClusterRig, name: str) -> float:
    return samples(cluster.nodes[CONTROLLER].node.local.metrics)[GAUGE + name]


async def test_it_decides_for_brokers_and_is_none_itself() -> None:
    async with ClusterRig(brokers=2, controller_roles="controller") as cluster:
        controller = cluster.nodes[CONTROLLER]
        assert sorted(image_of(controller).cluster.brokers) == [2, 3]
        assert sorted(image_of(controller).cluster.controllers) == [CONTROLLER]
        assert await cluster.create(2, "orders", 4) == "none"
        await cluster.clock.run(100)
        assert leaders(cluster, "orders") == {2, 3}
        assert not list(controller.node.replicas)
        assert not [name for name in controller.fs.listdir("/data") if name.startswith("orders")]
        assert controller.node.bound.advertised == {}
        assert controller.node.state.not_ready is None


@pytest.mark.parametrize("unsynced", [Unsynced.KEPT, Unsynced.LOST])
async def test_after_a_crash_it_goes_on_from_its_folder(unsynced: Unsynced) -> None:
    async with ClusterRig(brokers=2, controller_roles="controller") as cluster:
        await cluster.create(3, "orders", 2)
        await cluster.kill(CONTROLLER, unsynced)
        await cluster.clock.run(SESSION_MS)
        await cluster.start(CONTROLLER)
        assert leaders(cluster, "orders") == {2, 3}
        assert await cluster.create(2, "more", 2) == "none"
        await cluster.clock.run(2 * SESSION_MS)
        assert [broker.id for broker in image_of(cluster.nodes[CONTROLLER]).cluster.alive()] == [2, 3]


async def test_after_a_clean_stop_it_goes_on_from_its_folder() -> None:
    async with ClusterRig(brokers=1, controller_roles="controller") as cluster:
        await cluster.create(2, "orders", 2)
        await cluster.stop(CONTROLLER)
        assert cluster.nodes[CONTROLLER].fs.exists("/data/.kafka_cleanshutdown")
        await cluster.start(CONTROLLER)
        assert leaders(cluster, "orders") == {2}
        assert await cluster.create(2, "more", 1) == "none"


async def test_its_metrics_are_those_of_kafkas_controllers() -> None:
    async with ClusterRig(brokers=2, controller_roles="controller") as cluster:
        await cluster.create(2, "orders", 4)
        assert gauge(cluster, "activecontrollercount") == 1
        assert gauge(cluster, "activebrokercount") == 2
        assert gauge(cluster, "fencedbrokercount") == 0
        assert gauge(cluster, "globaltopiccount") == 1
        assert gauge(cluster, "globalpartitioncount") == 4
        assert gauge(cluster, "offlinepartitionscount") == 0
        assert gauge(cluster, "preferredreplicaimbalancecount") == 0
        assert gauge(cluster, "lastcommittedrecordoffset") >= image_of(cluster.nodes[CONTROLLER]).offset
        await cluster.kill(2)
        await cluster.clock.run(2 * SESSION_MS)
        assert gauge(cluster, "offlinepartitionscount") == 2
        assert gauge(cluster, "activebrokercount") == gauge(cluster, "fencedbrokercount") == 1


async def test_a_broker_that_is_one_no_more_is_fenced() -> None:
    async with ClusterRig(brokers=1) as cluster:
        await cluster.kill(CONTROLLER)
        cluster.controller_roles = "controller"
        await cluster.start(CONTROLLER)
        await cluster.clock.run(SESSION_MS)
        assert [broker.id for broker in image_of(cluster.nodes[CONTROLLER]).cluster.alive()] == [2]
        assert image_of(cluster.nodes[CONTROLLER]).cluster.brokers[CONTROLLER].fenced


@pytest.mark.long
async def test_a_broker_with_partitions_cannot_become_a_controller_alone() -> None:
    async with ClusterRig(brokers=1) as cluster:
        await cluster.create(2, "orders", 2)
        await cluster.clock.run(100)
        await cluster.stop(CONTROLLER)
        cluster.controller_roles = "controller"
        with pytest.raises(LogDirError, match=r"has the partition orders-\d, but process.roles is controller alone"):
            await cluster.start(CONTROLLER)
        cluster.controller_roles = "broker,controller"
        await cluster.start(CONTROLLER)
        assert leaders(cluster, "orders") == {1, 2}


async def test_a_broker_sends_the_unregistering_of_a_controller_on_to_it() -> None:
    async with ClusterRig(brokers=1, controller_roles="controller") as cluster:
        client = cluster.nodes[2].connect()
        itself = await cluster.ask(client, "unregister_controller", 0, controller_id=CONTROLLER)
        other = await cluster.ask(client, "unregister_controller", 0, controller_id=7)
        assert (itself.error_code, other.error_code) == (42, 136)
        assert other.error_message == "Controller ID 7 is not currently registered."
