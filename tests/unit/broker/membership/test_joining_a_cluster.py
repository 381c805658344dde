"""Brokers that follow another node's controller: whole nodes in memory and in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
from kio.schema.metadata.v13.request import MetadataRequestTopic

from broker.membership.broker_lifecycle import unserved
from broker.membership.followed_metadata import FollowedMetadata
from metadata.configs import ResourceType
from metadata.image import MetadataImage
from metadata.maps import Map
from protocol import uuids
from protocol.errors import KafkaError
from storage.files import read_file
from tests.doubles.files import Unsynced
from tests.unit.broker.cluster_rig import CLIENT_PORT, ClusterRig, NodeRig
from tests.unit.broker.scraping import samples

SESSION_MS = 9_000
ONLY_LOOKING = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


def image_of(node: NodeRig) -> MetadataImage:
    return node.node.cluster.cache.image


def followed(node: NodeRig) -> FollowedMetadata:
    metadata = node.node.metadata
    assert isinstance(metadata, FollowedMetadata)
    return metadata


async def test_nodes_join_and_share_the_partitions_of_a_topic() -> None:
    async with ClusterRig(brokers=2) as cluster:
        assert [broker.id for broker in image_of(cluster.nodes[3]).cluster.alive()] == [1, 2, 3]
        assert await cluster.create(2, "orders", 6) == "none"
        await cluster.clock.run(100)
        for node_id, rig in cluster.nodes.items():
            topic = image_of(rig).topics.get("orders")
            assert topic is not None, node_id
            mine = {index for index, partition in topic.in_order() if partition.leader == node_id}
            assert {partition.index for partition in rig.node.replicas} == mine
            assert len(mine) == 2


@pytest.mark.long
@pytest.mark.parametrize("unsynced", [Unsynced.KEPT, Unsynced.LOST])
async def test_a_node_that_is_back_within_its_session_listens_only_once_it_is_unfenced(unsynced: Unsynced) -> None:
    """Otherwise it would answer, with an empty log maybe, from an image in which its last run still leads."""
    async with ClusterRig(brokers=2) as cluster:
        await cluster.create(1, "orders", 3)
        await cluster.clock.run(100)
        controller = cluster.nodes[1]
        first_epoch = image_of(controller).cluster.brokers[2].epoch
        await cluster.kill(2, unsynced)
        killed_ms = cluster.clock.monotonic_ms()
        starting = asyncio.ensure_future(cluster.nodes[2].start())
        heard = False
        while not starting.done():
            await cluster.clock.run(5)
            listens = cluster.network.listens(cluster.nodes[2].host, CLIENT_PORT)
            broker = image_of(controller).cluster.brokers[2]
            assert not listens or (broker.epoch > first_epoch and not broker.fenced)
            heard |= listens
        await starting
        assert heard
        assert cluster.clock.monotonic_ms() - killed_ms >= SESSION_MS - 2_000, (
            "the controller took the old run for alive"
        )
        assert {one.index for one in cluster.nodes[2].node.replicas} == {
            index for index, one in topic_of(cluster.nodes[2], "orders").in_order() if one.leader == 2
        }


def topic_of(node: NodeRig, name: str) -> Any:
    topic = image_of(node).topics.get(name)
    assert topic is not None
    return topic


async def test_a_silent_node_is_named_to_no_client() -> None:
    async with ClusterRig(brokers=2) as cluster:
        await cluster.create(1, "orders", 3)
        await cluster.clock.run(100)
        (lost,) = (index for index, one in topic_of(cluster.nodes[3], "orders").in_order() if one.leader == 2)
        await cluster.kill(2)
        await cluster.clock.run(SESSION_MS + 3_000)
        client = cluster.nodes[3].connect()
        wanted = (MetadataRequestTopic(topic_id=None, name="orders"),)
        found = await cluster.ask(client, "metadata", 12, topics=wanted, **ONLY_LOOKING)
        assert sorted(broker.node_id for broker in found.brokers) == [1, 3]
        partition = next(one for one in found.topics[0].partitions if one.partition_index == lost)
        assert (partition.error_code.name, partition.leader_id) == ("leader_not_available", -1)
        assert partition.offline_replicas == (2,)
        await cluster.start(2)
        await cluster.clock.run(200)
        assert topic_of(cluster.nodes[3], "orders").partitions[lost].leader == 2


async def test_a_clean_stop_fences_the_node_at_once_and_the_next_run_says_what_the_last_was() -> None:
    async with ClusterRig(brokers=1) as cluster:
        epoch = followed(cluster.nodes[2]).broker_epoch
        await cluster.stop(2)
        assert image_of(cluster.nodes[1]).cluster.brokers[2].fenced
        fs = cluster.nodes[2].fs
        assert f'"brokerEpoch":{epoch}'.encode() in read_file(fs, "/data/.kafka_cleanshutdown")
        await cluster.start(2)
        assert followed(cluster.nodes[2]).broker_epoch > epoch


async def test_without_its_controller_a_node_serves_what_it_has_and_refuses_changes_until_it_is_back() -> None:
    async with ClusterRig(brokers=2) as cluster:
        await cluster.create(1, "orders", 3)
        await cluster.clock.run(100)
        await cluster.kill(1)
        client = cluster.nodes[2].connect()
        found = await cluster.ask(client, "metadata", 12, topics=None, **ONLY_LOOKING)
        assert [topic.name for topic in found.topics] == ["orders"]
        assert await cluster.create(2, "late", 1) == "request_timed_out"
        (problem,) = cluster.nodes[2].node.state.problems()
        assert "no controller has answered for 6" in problem
        await cluster.start(1)
        await cluster.clock.run(5_000)
        assert cluster.nodes[2].node.state.problems() == []
        assert await cluster.create(2, "later", 3) == "none"
        await cluster.clock.run(1_000)
        assert topic_of(cluster.nodes[3], "later").partition_count == 3
        assert [broker.id for broker in image_of(cluster.nodes[1]).cluster.alive()] == [1, 2, 3]


async def test_a_stop_does_not_wait_for_a_controller_that_is_gone() -> None:
    async with ClusterRig(brokers=1) as cluster:
        await cluster.kill(1)
        await cluster.clock.run(SESSION_MS + 1_000)
        began_ms = cluster.clock.monotonic_ms()
        await cluster.stop(2)
        assert cluster.clock.monotonic_ms() - began_ms < 4_000
        await cluster.start(1)


async def test_a_restart_goes_on_from_the_copy_and_a_damaged_copy_is_no_harm() -> None:
    async with ClusterRig(brokers=1) as cluster:
        for number in range(5):
            await cluster.create(2, f"topic-{number}", 1)
        await cluster.clock.run(200)
        await cluster.stop(2)
        fs = cluster.nodes[2].fs
        (copy,) = [name for name in fs.listdir("/data/__cluster_metadata-0") if name.endswith(".checkpoint")]
        offset = int(copy.partition("-")[0])
        assert offset > 10
        await cluster.start(2)
        assert len(image_of(cluster.nodes[2]).topics) == 5
        await cluster.stop(2)
        for name in fs.listdir("/data/__cluster_metadata-0"):
            file = fs.open(f"/data/__cluster_metadata-0/{name}")
            file.pwrite(b"\xff" * 8, 80)
            file.close()
        await cluster.start(2)
        assert len(image_of(cluster.nodes[2]).topics) == 5


async def test_a_node_that_was_away_too_long_is_sent_a_snapshot() -> None:
    async with ClusterRig(brokers=2) as cluster:
        await cluster.create(1, "gone", 2)
        await cluster.create(1, "kept", 2)
        await cluster.clock.run(200)
        await cluster.stop(2)
        delete = cluster.nodes[1].delete("gone")
        await cluster.during(delete)
        await cluster.create(1, "new", 2)
        await write_snapshots(cluster)
        await cluster.start(2)
        names = {topic.name for topic in image_of(cluster.nodes[2]).topics}
        assert names == {"kept", "new"}
        assert image_of(cluster.nodes[2]).topics == image_of(cluster.nodes[1]).topics
        assert await cluster.create(2, "newer", 2) == "none"
        await cluster.clock.run(200)
        assert image_of(cluster.nodes[2]).topics == image_of(cluster.nodes[1]).topics


async def test_a_snapshot_in_the_middle_of_a_nodes_life_tells_its_parts_what_is_new_and_what_is_gone() -> None:
    async with ClusterRig(brokers=2) as cluster:
        await cluster.create(1, "gone", 3)
        await cluster.create(1, "kept", 3)
        await cluster.clock.run(200)
        cluster.network.dead.add(cluster.nodes[2].host)  # it is cut off, for less than a session
        cluster.network.cut_host(cluster.nodes[2].host)
        await cluster.during(cluster.nodes[1].delete("gone"))
        await cluster.create(1, "new", 3)
        await write_snapshots(cluster)
        cluster.network.dead.discard(cluster.nodes[2].host)
        await cluster.clock.run(5_000)
        node = cluster.nodes[2]
        assert image_of(node).topics == image_of(cluster.nodes[1]).topics
        assert {one.topic for one in node.node.replicas} == {"kept", "new"}


async def write_snapshots(cluster: ClusterRig) -> None:
    """Let the controller's log begin after what it has now."""
    controller: Any = cluster.nodes[1].node.metadata
    for number in range(2):
        await cluster.create(1, f"filler-{number}", 1)
        await cluster.during(cluster.nodes[1].delete(f"filler-{number}"))
        await cluster.during(controller._write_snapshot(controller.controller.image))
    assert controller.log.log.log_start_offset > 0


@pytest.mark.parametrize("through", [1, 2])
async def test_configurations_are_checked_here_and_changed_there(through: int) -> None:
    async with ClusterRig(brokers=1) as cluster:
        await cluster.create(1, "orders", 1)
        await cluster.clock.run(100)

        def resource(kind: int, name: str, key: str, value: str) -> AlterConfigsResource:
            config = AlterableConfig(name=key, config_operation=0, value=value)
            return AlterConfigsResource(resource_type=kind, resource_name=name, configs=(config,))

        resources = (
            resource(ResourceType.TOPIC, "orders", "retention.ms", "1000"),
            resource(ResourceType.TOPIC, "missing", "retention.ms", "1000"),
            resource(ResourceType.BROKER, f"0{through}", "log.cleaner.threads", "2"),
            resource(ResourceType.BROKER, "7", "log.cleaner.threads", "2"),
            resource(ResourceType.BROKER, str(through), "log.dirs", "/elsewhere"),
        )
        client = cluster.nodes[through].connect()
        done = await cluster.ask(client, "incremental_alter_configs", 1, resources=resources, validate_only=False)
        assert [(one.resource_name, one.error_code.name) for one in done.responses] == [
            ("orders", "none"),
            ("missing", "unknown_topic_or_partition"),
            (f"0{through}", "none"),
            ("7", "invalid_request"),
            (str(through), "invalid_request"),
        ]
        await cluster.clock.run(100)
        configs = image_of(cluster.nodes[2]).configs
        assert dict(configs.of(ResourceType.TOPIC, "orders")) == {"retention.ms": "1000"}
        assert dict(configs.of(ResourceType.BROKER, str(through))) == {"log.cleaner.threads": "2"}
        assert cluster.nodes[through].node.local.config.integer("log.cleaner.threads") == 2


async def test_metrics_say_who_the_controller_is_and_how_far_the_metadata_were_followed() -> None:
    async with ClusterRig(brokers=1) as cluster:
        of_broker, of_controller = (samples(cluster.nodes[node_id].node.local.metrics) for node_id in (2, 1))
        assert of_broker["kafka_server_kafkaserver_brokerstate"] == 3
        assert of_broker["kafka_server_raft_metrics_current_leader"] == 1
        applied = of_broker["kafka_server_broker_metadata_metrics_last_applied_record_offset"]
        assert applied == image_of(cluster.nodes[2]).offset
        assert of_controller["kafka_server_raft_metrics_current_leader"] == 1
        assert of_controller['kafka_server_raftmetrics_current_state{current_state="leader"}'] == 1
        assert of_broker['kafka_server_raftmetrics_current_state{current_state="observer"}'] == 1
        end = of_controller["kafka_server_raft_metrics_log_end_offset"]
        assert end == of_broker["kafka_server_raft_metrics_log_end_offset"] == applied + 1


async def test_producer_ids_come_in_blocks_of_the_controller() -> None:
    async with ClusterRig(brokers=2) as cluster:
        allocating = [cluster.nodes[node_id].node.metadata.allocate_producer_ids() for node_id in (2, 3, 1)]
        blocks = [await cluster.during(each) for each in allocating]
        assert [len(block) for block in blocks] == [1000, 1000, 1000]
        assert len({*blocks[0], *blocks[1], *blocks[2]}) == 3000
        stale = followed(cluster.nodes[2])
        stale.lifecycle.epoch -= 1
        with pytest.raises(KafkaError) as refused:
            await cluster.during(stale.allocate_producer_ids())
        stale.lifecycle.epoch += 1
        assert refused.value.code.name == "stale_broker_epoch"


async def test_the_controller_learns_in_which_folder_each_replica_is() -> None:
    folders = {"log.dirs": "/data,/more"}
    async with ClusterRig(brokers=1, config=folders) as cluster:
        await cluster.create(1, "orders", 8)
        await cluster.clock.run(2_000)
        for node in cluster.nodes.values():
            ids = {each.path: uuids.from_text(each.directory_id) for each in node.node.replicas.logs.usable_dirs}
            assert len(list(node.node.replicas)) == 4
            for partition in node.node.replicas:
                state = topic_of(cluster.nodes[1], "orders").partitions[partition.index]
                assert state.directories == (ids[partition.log.folder.rpartition("/")[0]],)
        moved = next(one for one in cluster.nodes[2].node.replicas if one.log.folder.startswith("/data"))
        cluster.nodes[2].node.replicas.moves.request(moved.log, "/more")
        await cluster.clock.run(2_000)
        assert moved.log.folder.startswith("/more")
        state = topic_of(cluster.nodes[1], "orders").partitions[moved.index]
        more = next(each for each in cluster.nodes[2].node.replicas.logs.usable_dirs if each.path == "/more")
        assert state.directories == (uuids.from_text(more.directory_id),)


async def test_after_a_lost_disk_the_controller_knows_the_new_directory_before_the_replica_can_be_in_sync() -> None:
    """KIP-858: a replica in a directory that the controller takes for lost is never elected, not even later."""
    async with ClusterRig(brokers=2) as cluster:
        assert await cluster.create(2, "orders", 1, replicas=(3, 2)) == "none"
        await cluster.clock.run(1_000)
        await cluster.kill(2)
        cluster.nodes[2] = NodeRig(cluster, 2, seed=9)
        await cluster.start(2)
        (log_dir,) = cluster.nodes[2].node.replicas.logs.usable_dirs
        state = topic_of(cluster.nodes[1], "orders").partitions[0]
        assert state.directory_of(2) == uuids.from_text(log_dir.directory_id)


def test_what_a_cluster_has_finalized_and_this_release_does_not_serve() -> None:
    assert unserved(MetadataImage(features=Map({"metadata.version": 33, "transaction.version": 2}))) == []
    levels = {"metadata.version": 34, "other.version": 1, "new.version": 0}
    assert [line.partition(":")[0] for line in unserved(MetadataImage(features=Map(levels)))] == [
        "the cluster has finalized metadata.version at level 34, and this node serves the levels 7 to 33",
        "the cluster has finalized other.version at level 1, and this node does not serve this feature",
    ]
