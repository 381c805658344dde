"""Dynamic configurations of brokers, groups and client metrics in the store."""

from __future__ import annotations

from broker.metadata.resource_configs import CLUSTER_DEFAULT, Resource, ResourceType

from broker.coordinators.group_coordinator import consumer_group_config
from tests.unit.broker.admin_rig import Rig

CLUSTER = (ResourceType.BROKER, CLUSTER_DEFAULT)
GROUP = (ResourceType.GROUP, "a/b <default>")


async def test_a_new_cluster_starts_with_its_minimum_of_in_sync_replicas_and_keeps_it() -> None:
    rig = await Rig.open(min_insync_replicas="2")
    assert rig.node.resource_configs.get(*CLUSTER) == {"min.insync.replicas": "2"}
    again = await Rig.open(rig.fs, min_insync_replicas="1")
    assert again.node.resource_configs.get(*CLUSTER) == {"min.insync.replicas": "2"}
    assert again.node.config.integer("min.insync.replicas") == 2


async def test_what_is_set_is_seen_told_and_found_after_a_restart() -> None:
    rig = await Rig.open()
    configs = rig.node.resource_configs
    heard: list[Resource] = []
    configs.subscribe(heard.append)
    await configs.set({GROUP: {"consumer.session.timeout.ms": "50000"}, (ResourceType.BROKER, "1"): {"x": "y"}})
    assert sorted(heard) == [(ResourceType.BROKER, "1"), GROUP]
    again = (await Rig.open(rig.fs)).node.resource_configs
    assert again.get(*GROUP) == {"consumer.session.timeout.ms": "50000"}
    assert again.names(ResourceType.GROUP) == ["a/b <default>"]
    await again.set({GROUP: {}})
    assert again.names(ResourceType.GROUP) == []


async def test_a_group_may_have_the_name_that_stands_for_all_brokers() -> None:
    rig = await Rig.open()
    group = (ResourceType.GROUP, "<default>")
    for value in ("50000", "50001"):
        await rig.node.resource_configs.set({group: {"consumer.session.timeout.ms": value}})
    again = (await Rig.open(rig.fs)).node.resource_configs
    assert again.get(*group) == {"consumer.session.timeout.ms": "50001"}
    assert again.get(*CLUSTER) == {"min.insync.replicas": "1"}


async def test_this_brokers_configs_come_before_the_clusters() -> None:
    rig = await Rig.open()
    await rig.node.resource_configs.set(
        {
            (ResourceType.BROKER, "1"): {"log.retention.ms": "1"},
            (ResourceType.BROKER, "2"): {"log.retention.ms": "2"},
            CLUSTER: {"log.retention.ms": "3", "log.segment.bytes": "2000000"},
        }
    )
    assert rig.node.config.integer("log.retention.ms") == 1
    assert rig.node.config.integer("log.segment.bytes") == 2_000_000


async def test_consumer_groups_follow_their_own_configurations() -> None:
    rig = await Rig.open(group_consumer_session_timeout_ms="46000")
    config = consumer_group_config(rig.node.config, rig.node.resource_configs)

    def timeouts() -> tuple[int, int]:
        return config.session_timeout_of(GROUP[1]), config.heartbeat_interval_of(GROUP[1])

    own = {"consumer.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "6000"}
    assert timeouts() == (46_000, 5_000)
    await rig.node.resource_configs.set({GROUP: own, (ResourceType.BROKER, GROUP[1]): {"x": "y"}})
    assert timeouts() == (50_000, 5_000)
    node = (await Rig.open(rig.fs)).node
    config = consumer_group_config(node.config, node.resource_configs)
    assert timeouts() == (50_000, 5_000)
    config = consumer_group_config(rig.node.config, rig.node.resource_configs)
    await rig.node.resource_configs.set({GROUP: {"consumer.heartbeat.interval.ms": "7000"}})
    assert timeouts() == (46_000, 7_000)
    await rig.node.resource_configs.set({GROUP: {}})
    assert timeouts() == (46_000, 5_000)
