"""What the controller is told of configurations: from this node's definitions, and its present configuration."""

from __future__ import annotations

import pytest

from broker.config.broker_config import BrokerConfig
from broker.membership.config_schema import MOST_DESCRIBED, NodeConfigSchema
from metadata.configs import ResourceType
from protocol.errors import InvalidConfiguration, InvalidRequest, KafkaError

TOPIC, BROKER, METRICS, GROUP = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


class Configured:
    """A schema, and the configuration that it answers by."""

    def __init__(self) -> None:
        self.config = BrokerConfig.of({"node.id": "1", "num.partitions": "4", "default.replication.factor": "3"})
        self.schema = NodeConfigSchema(lambda: self.config)

    def effective(self, **configs: str) -> dict[str, tuple[str | None, int]]:
        """(value, source) of each configuration of a topic."""
        given = {name.replace("_", "."): value for name, value in configs.items()}
        return {each.name: (each.value, each.config_source) for each in self.schema.effective_topic_configs(given)}


def test_new_topics_have_what_is_configured_for_them() -> None:
    schema = Configured().schema
    assert (schema.partition_count, schema.replication_factor) == (4, 3)


@pytest.mark.parametrize(
    ("configs", "value"),
    [({}, "false"), ({"retention.ms": "1"}, "false"), ({"unclean.leader.election.enable": "TRUE"}, "true")],
)
def test_a_topics_value_is_told_in_one_form_however_it_was_written(configs: dict[str, str], value: str) -> None:
    assert Configured().schema.topic_value(configs, "unclean.leader.election.enable") == value


@pytest.mark.parametrize(
    ("kind", "configs", "error"),
    [
        (TOPIC, {"retention.ms": "x"}, InvalidConfiguration),
        (TOPIC, {"no.such": "1"}, InvalidConfiguration),
        (TOPIC, {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"}, InvalidConfiguration),
        (GROUP, {"consumer.session.timeout.ms": "1"}, InvalidConfiguration),
        (METRICS, {"interval.ms": "99"}, InvalidRequest),
        (TOPIC, {"retention.ms": "5"}, None),
        (GROUP, {"consumer.session.timeout.ms": "50000"}, None),
        (METRICS, {"interval.ms": "100"}, None),
        (BROKER, {"no.such": "1"}, None),  # that broker has checked it
    ],
)
def test_configurations_are_checked_by_kind(kind: int, configs: dict[str, str], error: type[KafkaError] | None) -> None:
    schema = Configured().schema
    if error is None:
        schema.check(kind, "name", configs)
    else:
        with pytest.raises(error):
            schema.check(kind, "name", configs)


@pytest.mark.parametrize(
    ("kind", "name", "default"),
    [
        (TOPIC, "cleanup.policy", "delete"),
        (TOPIC, "retention.ms", None),
        (TOPIC, "no.such", None),
        (BROKER, "log.cleanup.policy", "delete"),
        (BROKER, "ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
        (BROKER, "num.partitions", None),
    ],
)
def test_only_lists_have_parts(kind: int, name: str, default: str | None) -> None:
    schema = Configured().schema
    assert schema.is_list(kind, name) == (default is not None)
    if default is not None:
        assert schema.default(kind, name) == default


def test_everything_that_holds_for_a_topic_is_told_by_name_with_its_source() -> None:
    told = Configured().effective(retention_ms=" 5 ")
    assert list(told) == sorted(told)
    assert told["retention.ms"] == (" 5 ", 1)
    assert told["cleanup.policy"] == ("delete", 5)


def test_a_changed_configuration_counts_at_once() -> None:
    configured = Configured()
    assert configured.effective()["segment.bytes"][1] == 5
    configured.config = configured.config.with_dynamic({}, {"log.segment.bytes": "2000000"})
    assert configured.effective()["segment.bytes"] == ("2000000", 3)


def test_what_was_described_is_remembered_but_not_for_ever() -> None:
    configured = Configured()
    first = configured.schema.effective_topic_configs({"retention.ms": "0"})
    assert configured.schema.effective_topic_configs({"retention.ms": "0"}) is first
    for number in range(MOST_DESCRIBED + 1):
        assert configured.effective(retention_ms=str(number))["retention.ms"][0] == str(number)
    assert configured.schema.effective_topic_configs({"retention.ms": "0"}) == first
