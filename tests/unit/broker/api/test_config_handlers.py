"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources as a real Kafka 4.1 answers them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from kio.schema.alter_configs.v2 import request as alter
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1 import request as incremental

from tests.unit.broker.admin_rig import Rig

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
Change = tuple[str, int, str | None]


async def opened(**config: str) -> Rig:
    rig = await Rig.open(**config)  # type: ignore[arg-type]
    for name in ("t", "u"):
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
        await rig.ask("create_topics", topics=(topic,), timeout=datetime.timedelta(seconds=1))
    return rig


async def change(rig: Rig, *resources: tuple[int, str, list[Change]], validate_only: bool = False) -> list[str]:
    answer = await rig.ask(
        "incremental_alter_configs",
        resources=tuple(
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(incremental.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in changes),
            )
            for kind, name, changes in resources
        ),
        validate_only=validate_only,
    )
    return [one.error_code.name for one in answer.responses]


async def replace(rig: Rig, *resources: tuple[int, str, dict[str, str | None]]) -> list[str]:
    answer = await rig.ask(
        "alter_configs",
        resources=tuple(
            alter.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(alter.AlterableConfig(name=n, value=v) for n, v in configs.items()),
            )
            for kind, name, configs in resources
        ),
        validate_only=False,
    )
    return [one.error_code.name for one in answer.responses]


async def describe(rig: Rig, kind: int, name: str, *keys: str, **fields: bool) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    (result,) = (await rig.ask("describe_configs", resources=(resource,), **fields)).results
    return result


def overrides(rig: Rig, topic: str) -> dict[str, str]:
    return dict(rig.node.cluster.cache.topic_configs(topic))


async def test_incremental_changes_of_a_topic() -> None:
    rig = await opened()
    assert await change(rig, (TOPIC, "t", [("retention.ms", SET, "7"), ("cleanup.policy", APPEND, "compact")])) == [
        "none"
    ]
    assert overrides(rig, "t") == {"retention.ms": "7", "cleanup.policy": "delete,compact"}
    await change(rig, (TOPIC, "t", [("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")]))
    assert overrides(rig, "t") == {"cleanup.policy": "compact"}
    await change(rig, (TOPIC, "t", [("retention.ms", SET, "8")]), validate_only=True)
    assert overrides(rig, "t") == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code"),
    [
        (TOPIC, "t", [("retention.ms", APPEND, "7")], "invalid_config"),
        (TOPIC, "t", [("no.such", SET, "7")], "invalid_config"),
        (TOPIC, "t", [("no.such", DELETE, None)], "none"),
        (TOPIC, "t", [("retention.ms", SET, None)], "invalid_request"),
        (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], "invalid_request"),
        (TOPIC, "t", [], "none"),
        (TOPIC, "no", [("retention.ms", SET, "7")], "unknown_topic_or_partition"),
        (TOPIC, "no", [("no.such", SET, "7")], "invalid_config"),
        (TOPIC, "bad/", [], "invalid_topic_exception"),
        (TOPIC, "", [], "invalid_request"),
        (BROKER, "1", [("log.retention.ms", SET, "8")], "none"),
        (BROKER, "", [("log.retention.ms", SET, "8")], "none"),
        (BROKER, "2", [], "invalid_request"),
        (BROKER, "x", [], "invalid_request"),
        (BROKER, "1", [("num.partitions", SET, "8")], "invalid_request"),
        (BROKER, "1", [("min.insync.replicas", SET, "1")], "invalid_config"),
        (BROKER, "", [("min.insync.replicas", DELETE, None)], "invalid_config"),
        (BROKER, "1", [("log.retention.ms", APPEND, "8")], "invalid_config"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "46000")], "none"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")], "invalid_config"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "100000")], "invalid_config"),
        (GROUP, "g", [("streams.num.standby.replicas", SET, "3")], "invalid_config"),
        (GROUP, "g", [("share.auto.offset.reset", SET, "by_duration:PT1S")], "none"),
        (GROUP, "g", [("share.auto.offset.reset", SET, "by_duration:x")], "invalid_config"),
        (GROUP, "g", [("no.such", SET, "1")], "invalid_config"),
        (GROUP, "", [], "invalid_request"),
        (METRICS, "m", [("interval.ms", SET, "100")], "none"),
        (METRICS, "m", [("interval.ms", SET, "99")], "invalid_request"),
        (METRICS, "m", [("match", SET, "client_id=[")], "invalid_config"),
        (METRICS, "m", [("match", SET, "client_id=a=b")], "invalid_config"),
        (METRICS, "m", [("match", SET, "no=x")], "invalid_config"),
        (METRICS, "m", [("no.such", SET, "1")], "invalid_request"),
        (METRICS, "", [], "invalid_request"),
        (LOGGER, "1", [("no.such", SET, "INFO")], "invalid_config"),
        (LOGGER, "1", [("root", SET, "LOUD")], "invalid_config"),
        (LOGGER, "1", [("root", DELETE, None)], "invalid_request"),
        (LOGGER, "1", [("root", APPEND, "INFO")], "invalid_request"),
        (LOGGER, "", [], "invalid_request"),
        (99, "t", [], "invalid_request"),
        (1, "t", [], "invalid_request"),
    ],
)
async def test_codes_of_incremental_changes(kind: int, name: str, changes: list[Change], code: str) -> None:
    rig = await opened()
    assert await change(rig, (kind, name, changes), validate_only=True) == [code]
    before = rig.node.cluster.cache.image.offset
    assert await change(rig, (kind, name, changes)) == [code]
    if code != "none":
        assert rig.node.cluster.cache.image.offset == before


async def test_a_resource_named_twice_is_refused_and_the_others_are_changed() -> None:
    rig = await opened()
    once: list[Change] = [("retention.ms", SET, "1")]
    codes = await change(rig, (TOPIC, "t", once), (TOPIC, "u", once), (TOPIC, "t", once))
    assert codes == ["invalid_request", "none", "invalid_request"]
    assert await replace(rig, (TOPIC, "t", {}), (TOPIC, "t", {})) == ["invalid_request", "invalid_request"]
    assert (overrides(rig, "t"), overrides(rig, "u")) == ({}, {"retention.ms": "1"})


async def test_alter_configs_replaces_everything_that_was_set() -> None:
    rig = await opened()
    await replace(rig, (TOPIC, "t", {"retention.ms": "7", "segment.ms": "9000"}))
    assert await replace(rig, (TOPIC, "t", {"retention.ms": "8"})) == ["none"]
    assert overrides(rig, "t") == {"retention.ms": "8"}
    assert await replace(rig, (TOPIC, "t", {"retention.ms": None})) == ["invalid_request"]
    assert await replace(rig, (LOGGER, "1", {"root": "INFO"})) == ["invalid_request"]
    assert await replace(rig, (BROKER, "", {})) == ["invalid_config"]
    assert await replace(rig, (TOPIC, "t", {}), (GROUP, "g", {"consumer.session.timeout.ms": "46000"})) == [
        "none",
        "none",
    ]
    assert overrides(rig, "t") == {}
    assert await replace(rig, (GROUP, "g", {})) == ["none"]
    assert rig.node.cluster.cache.image.configs.names(GROUP) == []


async def test_a_changed_broker_config_is_in_force_at_once() -> None:
    rig = await opened()
    await change(rig, (BROKER, "", [("log.retention.ms", SET, "8")]))
    retention = (await describe(rig, TOPIC, "t", "retention.ms", include_synonyms=True)).configs[0]
    assert (retention.value, retention.config_source) == ("8", 3)


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "no", "unknown_topic_or_partition", ""),
        (TOPIC, "", "invalid_topic_exception", "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "2", "invalid_request", "Unexpected broker id, expected 1 or empty string, but received 2"),
        (BROKER, "x", "invalid_request", "Broker id must be an integer, but it is: x"),
        (LOGGER, "", "invalid_request", "Broker id must not be empty"),
        (LOGGER, "2", "invalid_request", "Unexpected broker id, expected 1 but received 2"),
        (GROUP, "", "invalid_request", "Group name must not be empty"),
        (METRICS, "", "invalid_request", "Client metrics subscription name must not be empty"),
    ],
)
async def test_describe_configs_refuses(kind: int, name: str, code: str, message: str) -> None:
    result = await describe(await opened(), kind, name)
    assert (result.error_code.name, result.error_message, result.configs) == (code, message, ())


async def test_describe_configs_of_every_type() -> None:
    rig = await opened()
    await change(
        rig,
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "46000"), ("share.auto.offset.reset", SET, "earliest")]),
        (METRICS, "m", [("metrics", SET, "a,b")]),
    )
    assert len((await describe(rig, TOPIC, "t")).configs) == 37
    assert [config.name for config in (await describe(rig, BROKER, "")).configs] == ["min.insync.replicas"]
    loggers = [config.name for config in (await describe(rig, LOGGER, "1")).configs]
    assert loggers[0] == "root"
    assert {"broker", "broker.membership", "broker.membership.publisher", "asyncio"} <= {*loggers}
    assert len((await describe(rig, LOGGER, "1", "broker.membership")).configs) == 1
    group = (await describe(rig, GROUP, "g", include_synonyms=True)).configs
    timeout = next(config for config in group if config.name == "consumer.session.timeout.ms")
    assert (len(group), timeout.value, timeout.config_source) == (21, "46000", 8)
    assert [(s.value, s.source) for s in timeout.synonyms] == [("46000", 8), ("45000", 5)]
    reset = next(config for config in group if config.name == "share.auto.offset.reset")
    assert [(s.value, s.source) for s in reset.synonyms] == [("earliest", 8), ("latest", 5)]
    metrics = (await describe(rig, METRICS, "m", include_synonyms=True)).configs
    assert [(c.name, c.value, c.config_source, len(c.synonyms)) for c in metrics] == [
        ("interval.ms", "300000", 5, 0),
        ("match", "", 5, 0),
        ("metrics", "a,b", 7, 1),
    ]


async def test_a_groups_defaults_are_the_brokers() -> None:
    rig = await opened(**{"group.consumer.session.timeout.ms": "46000"})
    await change(rig, (BROKER, "", [("group.consumer.assignment.interval.ms", SET, "700")]))
    keys = {
        "consumer.session.timeout.ms": ("46000", 4, [("46000", 4), ("45000", 5)]),
        "consumer.assignment.interval.ms": ("700", 3, [("700", 3), ("1000", 5)]),
        "share.isolation.level": ("read_uncommitted", 5, [("read_uncommitted", 5)]),
        "streams.assignor.name": ("sticky", 5, [("sticky", 5)]),
    }
    for key, expected in keys.items():
        (found,) = (await describe(rig, GROUP, "g", key, include_synonyms=True)).configs
        assert (found.value, found.config_source, [(s.value, s.source) for s in found.synonyms]) == expected
        assert (await describe(rig, GROUP, "g", key)).configs[0].synonyms == ()


async def test_what_a_broker_may_have_and_a_topic_may_not() -> None:
    rig = await opened()
    await change(rig, (BROKER, "1", [("log.flush.interval.ms", SET, "-1")]))
    told = await describe(rig, TOPIC, "t")
    assert (told.error_code.name, told.error_message) == ("unknown_server_error", None)
    for wanted, code in (((), "none"), ((("flush.messages", "5"),), "invalid_config"), ((("flush.ms", "5"),), "none")):
        configs = tuple(CreatableTopicConfig(name=name, value=value) for name, value in wanted)
        topic = CreatableTopic(
            name=f"new{len(wanted)}{code}", num_partitions=1, replication_factor=1, assignments=(), configs=configs
        )
        answer = await rig.ask("create_topics", topics=(topic,), timeout=datetime.timedelta(seconds=1))
        assert answer.topics[0].error_code.name == code
    assert await change(rig, (TOPIC, "t", [("retention.ms", SET, "5")])) == ["invalid_config"]
    assert await change(rig, (TOPIC, "t", [("flush.ms", SET, "5")])) == ["none"]
    assert (await describe(rig, TOPIC, "t")).error_code.name == "none"


async def test_describe_configs_gives_synonyms_and_documentation_only_if_asked() -> None:
    rig = await opened()
    plain = (await describe(rig, TOPIC, "t", "retention.ms")).configs[0]
    assert (plain.synonyms, plain.documentation) == ((), None)
    full = await describe(rig, TOPIC, "t", "min.insync.replicas", include_synonyms=True, include_documentation=True)
    assert [(one.name, one.value, one.source) for one in full.configs[0].synonyms] == [
        ("min.insync.replicas", "1", 3),
        ("min.insync.replicas", "1", 5),
    ]
    assert full.configs[0].documentation


async def test_list_config_resources() -> None:
    rig = await opened()
    await change(
        rig, (GROUP, "g", [("consumer.session.timeout.ms", SET, "46000")]), (METRICS, "m", [("match", SET, "")])
    )

    async def listed(version: int, *types: int) -> Any:
        answer = await rig.ask("list_config_resources", version, resource_types=types)
        return answer.error_code.name, [(one.resource_type, one.resource_name) for one in answer.config_resources]

    everything = [(TOPIC, "t"), (TOPIC, "u"), (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g")]
    assert await listed(1) == ("none", everything)
    assert await listed(1, GROUP, GROUP) == ("none", [(GROUP, "g")])
    assert await listed(0) == ("none", [(METRICS, "m")])
    for group in ("readers", "writers", "a", "Aa", "BB", "group-9"):
        await change(rig, (GROUP, group, [("consumer.session.timeout.ms", SET, "46000")]))
    groups = [name for _, name in (await listed(1, GROUP))[1] if name != "g"]
    assert groups == ["Aa", "BB", "a", "group-9", "readers", "writers"]


async def test_an_operation_that_does_not_exist_fails_all_that_kafkas_controller_would_get() -> None:
    rig = await opened()
    nine = 9
    codes = await change(
        rig,
        (TOPIC, "t", [("flush.ms", SET, "1000")]),
        (METRICS, "m", [("interval.ms", nine, "1000")]),
        (BROKER, "", [("log.retention.ms", SET, "1000000000")]),
        (BROKER, "1", [("log.retention.ms", SET, "junk")]),
        (BROKER, "somebody", [("log.retention.ms", nine, "1000")]),
        (LOGGER, "somebody", [("root", nine, "INFO")]),
    )
    assert codes == ["invalid_request"] * 6
    assert [one.value for one in (await describe(rig, TOPIC, "t", "flush.ms")).configs] != ["1000"]
    assert (await describe(rig, BROKER, "", "log.retention.ms")).configs == ()


async def test_an_operation_that_does_not_exist_matters_only_if_kafka_comes_to_it() -> None:
    rig = await opened()
    assert await change(rig, (METRICS, "m", [("interval.ms", APPEND, "1000"), ("match", 7, "a")])) == ["invalid_config"]
