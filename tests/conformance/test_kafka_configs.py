"""DescribeConfigs of a topic with nothing set but two overrides, row for row, on the cluster under test.

Run with --bootstrap 127.0.0.1:19092 it asks a real Kafka 4.1 whether the definitions in broker/config are its own.
"""

from __future__ import annotations

import secrets
from typing import Any

from broker.config.broker_config import BrokerConfig
from broker.config.describe import ConfigEntry, describe_topic
from tests.conformance.wire import Wire

TOPIC = 2
OVERRIDES: dict[str, str | None] = {"retention.ms": "+1000", "cleanup.policy": " compact , delete"}
# A 4.1 cluster is formatted with this one (KIP-966).
CONFIG = BrokerConfig.of().with_dynamic({}, {"min.insync.replicas": "1"})


def test_a_topic_is_described_row_for_row(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    wire = Wire(host, int(port))
    name = f"configs-{secrets.token_hex(4)}"
    settings = [{"name": key, "value": value} for key, value in OVERRIDES.items()]
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": settings}
    created = wire.call("create_topics", 7, {"topics": [topic], "timeout": 10_000})
    try:
        assert created["topics"][0]["error_code"] == "0 NONE", created
        resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": None}
        asked = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
        answer = wire.call("describe_configs", 4, asked, timeout=10)
        rows = sorted(from_wire(config) for config in answer["results"][0]["configs"])
        assert rows == [from_entry(entry) for entry in describe_topic(CONFIG, OVERRIDES)]
    finally:
        wire.call("delete_topics", 6, {"topics": [{"name": name, "topic_id": None}], "timeout": 10_000})
        wire.close()


def from_wire(config: dict[str, Any]) -> tuple[Any, ...]:
    synonyms = [(s["name"], s["value"], s["source"]) for s in config["synonyms"]]
    documented = bool(config["documentation"])
    flags = (config["read_only"], config["is_sensitive"], documented)
    return (config["name"], config["value"], config["config_source"], config["config_type"], *flags, synonyms)


def from_entry(entry: ConfigEntry) -> tuple[Any, ...]:
    synonyms = [(s.name, s.value, int(s.source)) for s in entry.synonyms]
    flags = (entry.read_only, entry.sensitive, bool(entry.documentation))
    return (entry.name, entry.value, int(entry.source), int(entry.type), *flags, synonyms)
