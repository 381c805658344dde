"""DescribeConfigs' rows against those that Apache Kafka 4.1 answered, as recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.defs import CHANGED_DEFAULTS, groups, network, node, security
from broker.config.defs.not_needed import NOT_NEEDED
from broker.config.describe import (
    ConfigEntry,
    ConfigSource,
    TopicDescriber,
    describe_broker,
    describe_broker_default,
    describe_new_topic,
    describe_topic,
    require_this_broker,
)
from protocol.errors import InvalidRequest

RECORDED = Path(__file__).parents[3] / "conformance/data/kafka_configs.json"
KAFKA: dict[str, Any] = json.loads(RECORDED.read_text())
SCENARIOS = pytest.mark.parametrize("scenario", KAFKA["scenarios"], ids=lambda s: s["label"])


def configured(scenario: dict[str, Any]) -> BrokerConfig:
    static = BrokerConfig.of(KAFKA["static"])
    return static.with_dynamic(scenario["dynamic_broker"], scenario["dynamic_default"])


def row(entry: ConfigEntry) -> list[Any]:
    synonyms = [[s.name, s.value, s.source] for s in entry.synonyms]
    return [
        entry.name,
        entry.value,
        entry.source,
        entry.read_only,
        entry.sensitive,
        entry.type,
        synonyms,
    ]


def by_name(rows: list[list[Any]]) -> list[list[Any]]:
    return sorted(rows, key=lambda row: str(row[0]))


def without_changed_defaults(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows, less the default (source 5) of names whose default here is not Kafka's."""
    return [
        [*r[:6], [s for s in r[6] if s[2] != 5]] if r[0] in CHANGED_DEFAULTS and r[2] != 5 else r
        for r in rows
        if not (r[0] in CHANGED_DEFAULTS and r[2] == 5)
    ]


@SCENARIOS
def test_topics_are_described_as_kafka_does(scenario: dict[str, Any]) -> None:
    for topic in scenario["topics"]:
        entries = describe_topic(configured(scenario), topic["overrides"], topic["keys"])
        assert [row(entry) for entry in entries] == by_name(topic["rows"])


@SCENARIOS
def test_topics_of_one_request_are_described_as_each_by_itself(scenario: dict[str, Any]) -> None:
    describer = TopicDescriber(configured(scenario))
    for topic in 2 * scenario["topics"]:
        entries = describer.describe(topic["overrides"], topic["keys"])
        assert [row(entry) for entry in entries] == by_name(topic["rows"])


def test_topics_configured_alike_are_described_once() -> None:
    describer = TopicDescriber(BrokerConfig.of({"node.id": "1"}))
    first = describer.describe({"retention.ms": "1"}, ["retention.ms", "segment.ms"])
    assert describer.describe({"retention.ms": "1"}, ["retention.ms", "segment.ms"]) is first
    assert describer.describe({"retention.ms": "2"}, ["retention.ms", "segment.ms"]) != first


@SCENARIOS
def test_the_broker_is_described_as_kafka_does(scenario: dict[str, Any]) -> None:
    recorded = by_name(without_changed_defaults(scenario["broker"]))
    names = {r[0] for r in recorded}
    ours = [row(entry) for entry in describe_broker(configured(scenario)) if not entry.name.startswith("odradek.")]
    assert [r for r in without_changed_defaults(ours) if r[0] in names] == recorded
    assert {r[0] for r in ours} - {r[0] for r in scenario["broker"]} <= {
        *NOT_NEEDED,
        *(*node.CLUSTER_OF_NODES, *node.FOLLOWERS, *network.QUOTAS, *groups.SHARE_GROUPS),
        *(*security.TLS, *security.SASL, *security.AUTHORIZATION, *security.TOKENS),
    }


@SCENARIOS
def test_the_clusters_defaults_are_described_as_kafka_does(scenario: dict[str, Any]) -> None:
    entries = describe_broker_default(configured(scenario))
    assert [row(entry) for entry in entries] == by_name(scenario["broker_default"])


def test_chosen_keys_alone_and_no_keys_for_all() -> None:
    config = BrokerConfig.of()
    assert [e.name for e in describe_broker(config, ["node.id", "nope"])] == ["node.id"]
    assert len(describe_broker(config, [])) == len(describe_broker(config)) > 100


def test_what_this_broker_has_no_use_for_is_told_as_it_was_parsed() -> None:
    config = BrokerConfig.of({"num.io.threads": " +4"}).with_dynamic({}, {"background.threads": "+07"})
    entries = describe_broker(config, ["num.io.threads", "background.threads"])
    told = {entry.name: (entry.value, entry.synonyms[0].value) for entry in entries}
    assert told["num.io.threads"] == ("4", " +4")
    assert told["background.threads"] == ("7", "+07")
    unchecked = BrokerConfig.of({"sasl.login.class": "a.B"})
    assert describe_broker(unchecked, ["sasl.login.class"])[0].value == "a.B"


def test_a_new_topic_is_told_what_was_given_by_whichever_name() -> None:
    static = {"log.retention.hours": "+5", "log.roll.ms": "+77", "log.roll.hours": "9", "log.segment.bytes": "+3000000"}
    static |= {"log.flush.scheduler.interval.ms": "+1000"}
    config = BrokerConfig.of(static).with_dynamic({"log.preallocate": " TRUE "}, {"log.cleanup.policy": " compact "})
    told = {e.name: (e.value, e.source) for e in describe_new_topic(config, {"flush.messages": " +7"})}
    assert told["retention.ms"] == ("18000000", ConfigSource.STATIC_BROKER)
    assert told["segment.ms"] == ("+77", ConfigSource.STATIC_BROKER)
    assert told["segment.bytes"] == ("+3000000", ConfigSource.STATIC_BROKER)
    assert told["flush.ms"] == ("+1000", ConfigSource.STATIC_BROKER)
    assert told["preallocate"] == (" TRUE ", ConfigSource.DYNAMIC_BROKER)
    assert told["cleanup.policy"] == (" compact ", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert told["flush.messages"] == (" +7", ConfigSource.TOPIC)
    assert told["retention.bytes"] == ("-1", ConfigSource.DEFAULT)


def test_internal_configurations_show_only_where_set() -> None:
    config = BrokerConfig.of()
    assert "internal.segment.bytes" not in {e.name for e in describe_topic(config, {})}
    assert "internal.segment.bytes" in {e.name for e in describe_topic(config, {"internal.segment.bytes": "5"})}


def test_every_row_is_documented_in_a_sentence() -> None:
    for entry in (*describe_topic(BrokerConfig.of(), {}), *describe_broker(BrokerConfig.of())):
        assert entry.documentation
        assert entry.documentation.endswith((".", ":", "zstd."))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("listener.name.foo.sasl.enabled.mechanisms", ["5", False, 7, [("sasl.enabled.mechanisms", "GSSAPI")]]),
        ("listener.name.foo.plain.connections.max.reauth.ms", ["5", False, 5, [("connections.max.reauth.ms", "0")]]),
        ("listener.name.foo.plain.sasl.jaas.config", [None, True, 9, []]),
        ("listener.name.foo.no.such", [None, True, 0, []]),
        ("leader.replication.throttled.rate", ["5", False, 5, []]),
        ("no.such", [None, True, 0, []]),
    ],
)
def test_what_is_only_ever_altered_has_its_base_as_synonym_and_no_documentation(name: str, expected: list[Any]) -> None:
    """The rows are those of Apache Kafka's answer after each was set."""
    (entry,) = describe_broker(BrokerConfig.of().with_dynamic({name: "5"}, {}), [name])
    assert (entry.read_only, entry.documentation) == (name != "leader.replication.throttled.rate", None)
    assert (entry.synonyms[0].name, entry.synonyms[0].value) == (name, expected[0])
    rest = [(synonym.name, synonym.value) for synonym in entry.synonyms[1:]]
    assert [entry.value, entry.sensitive, entry.type, rest] == expected


def test_another_brokers_id_is_refused() -> None:
    config = BrokerConfig.of()
    require_this_broker(config, "1")
    with pytest.raises(InvalidRequest, match="Unexpected broker id, expected 1 or empty string, but received 2"):
        require_this_broker(config, "2")
    with pytest.raises(InvalidRequest, match="Broker id must be an integer, but it is: x"):
        require_this_broker(config, "x")
