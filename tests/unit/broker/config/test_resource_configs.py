"""Dynamic configurations of brokers and groups: kept, and in force at once."""

from __future__ import annotations

from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource

from broker.config.client_metrics_configs import effective_client_metrics_configs
from broker.config.describe import describe_topic
from broker.config.resource_configs import log_config
from broker.coordinators.group_coordinator import GroupOverrides, consumer_group_config
from broker.membership.auto_create import wanted
from controller.configs import AlterOp
from controller.decision import Decision
from metadata.configs import CLUSTER_DEFAULT, ResourceType
from protocol.metadata.topics import ConfigRecord
from tests.unit.broker.admin_rig import Rig
from tests.unit.broker.rig import Rig as NodeRig

CLUSTER = (ResourceType.BROKER, CLUSTER_DEFAULT)
GROUP = (ResourceType.GROUP, "a/b <default>")


async def test_a_new_cluster_starts_with_its_minimum_of_in_sync_replicas_and_keeps_it() -> None:
    rig = await Rig.open(min_insync_replicas="2")
    assert rig.configs(*CLUSTER) == {"min.insync.replicas": "2"}
    again = await Rig.open(rig.fs, min_insync_replicas="1")
    assert again.configs(*CLUSTER) == {"min.insync.replicas": "2"}
    assert again.node.local.config.integer("min.insync.replicas") == 2


async def test_what_is_set_is_found_after_a_restart() -> None:
    rig = await Rig.open()
    await rig.set_configs(*GROUP, {"consumer.session.timeout.ms": "50000"})
    await rig.set_configs(ResourceType.BROKER, "1", {"x": "y"})
    again = await Rig.open(rig.fs)
    assert again.configs(*GROUP) == {"consumer.session.timeout.ms": "50000"}
    assert again.configs(ResourceType.BROKER, "1") == {"x": "y"}
    assert again.node.cluster.cache.image.configs.names(ResourceType.GROUP) == ["a/b <default>"]
    await again.set_configs(*GROUP, {})
    assert again.node.cluster.cache.image.configs.names(ResourceType.GROUP) == []


async def test_configurations_that_another_release_has_left_count_for_nothing() -> None:
    """As in Kafka: a folder of Kafka 3 may have `message.format.version` of topics."""
    rig = await Rig.open()
    await rig.create(wanted("t", 1, 1))
    left = [
        ConfigRecord(resource_type=kind, resource_name="t", name="message.format.version", value="2.8")
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLIENT_METRICS)
    ]
    await rig.node.metadata.controller.submit(lambda _: Decision(left, None))
    again = await Rig.open(rig.fs)
    await again.set_configs(ResourceType.TOPIC, "t", {"retention.ms": "77"})
    config, configs = again.node.local.config, again.node.cluster.cache.image.configs
    assert log_config(config, "t", configs.of(ResourceType.TOPIC, "t")).retention_ms == 77
    described = {entry.name: entry.value for entry in describe_topic(config, configs.of(ResourceType.TOPIC, "t"))}
    assert described["retention.ms"] == "77"
    assert "message.format.version" not in described
    assert effective_client_metrics_configs(configs.of(ResourceType.CLIENT_METRICS, "t"))["interval.ms"] == 300_000
    assert again.node.controller.around.schema.known(ResourceType.GROUP, {"message.format.version": "2.8"}) == {}


async def test_a_group_may_have_the_name_that_stands_for_all_brokers() -> None:
    rig = await Rig.open()
    for name in ("<default>", "1"):
        await rig.set_configs(ResourceType.GROUP, name, {"consumer.session.timeout.ms": "50000"})
    again = await Rig.open(rig.fs)
    assert again.configs(ResourceType.GROUP, "<default>") == {"consumer.session.timeout.ms": "50000"}
    assert again.configs(*CLUSTER) == {"min.insync.replicas": "1"}
    assert again.configs(ResourceType.BROKER, "1") == {}


async def test_this_brokers_configs_come_before_the_clusters() -> None:
    rig = await Rig.open()
    await rig.set_configs(ResourceType.BROKER, "1", {"log.retention.ms": "1"})
    await rig.set_configs(ResourceType.BROKER, "2", {"log.retention.ms": "2"})
    await rig.set_configs(*CLUSTER, {"log.retention.ms": "3", "log.segment.bytes": "2000000"})
    assert rig.node.local.config.integer("log.retention.ms") == 1
    assert rig.node.local.config.integer("log.segment.bytes") == 2_000_000


async def test_consumer_groups_have_their_own_configurations_before_the_brokers() -> None:
    rig = await Rig.open(group_consumer_session_timeout_ms="46000")
    overrides = GroupOverrides("consumer.", rig.node.local.config)
    config = consumer_group_config(rig.node.local.current, overrides)

    def timeouts() -> tuple[int, int]:
        return config.session_timeout_of(GROUP[1]), config.heartbeat_interval_of(GROUP[1])

    assert timeouts() == (46_000, 5_000)
    overrides.put(GROUP[1], {"consumer.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "6000"})
    assert timeouts() == (50_000, 5_000)
    overrides.put(GROUP[1], {"consumer.session.timeout.ms": "99000", "consumer.heartbeat.interval.ms": " 6000 "})
    assert timeouts() == (60_000, 6_000)  # the broker's greatest timeout, and a number as its type reads it
    overrides.put(GROUP[1], {"consumer.heartbeat.interval.ms": "7000"})
    assert timeouts() == (46_000, 7_000)
    overrides.put(GROUP[1], {"share.heartbeat.interval.ms": "6000"})
    assert timeouts() == (46_000, 5_000)
    assert not overrides


async def set_of_group(rig: NodeRig, name: str, value: str | None) -> None:
    config = AlterableConfig(name=name, config_operation=AlterOp.SET if value else AlterOp.DELETE, value=value)
    resource = AlterConfigsResource(resource_type=GROUP[0], resource_name=GROUP[1], configs=(config,))
    asked = {"resources": (resource,), "validate_only": False}
    answer = await rig.connect().ask("incremental_alter_configs", 1, **asked)
    assert [each.error_code.name for each in answer.responses] == ["none"]


async def test_the_group_coordinator_follows_the_groups_configurations() -> None:
    def timeout(rig: NodeRig) -> int:
        return rig.node.coordinators.groups.consumer_config.session_timeout_of(GROUP[1])

    rig = NodeRig()
    await rig.start()
    await set_of_group(rig, "consumer.session.timeout.ms", "50000")
    assert timeout(rig) == 50_000
    again = await rig.crash()
    assert timeout(again) == 50_000
    await set_of_group(again, "consumer.session.timeout.ms", None)
    assert timeout(again) == 45_000
    await again.stop()
