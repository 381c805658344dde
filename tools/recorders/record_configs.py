"""Have a real Apache Kafka describe its configurations and keep its answers in `kafka_configs.json`.

Run by hand from the repository's root, with the file that KafkaDefinitions.java wrote and the node's properties:

    kafka start 29392 log.retention.hours=24 log.roll.ms=3600000 log.flush.scheduler.interval.ms=5000 foo.bar=baz \\
        compression.type=lz4 log.cleanup.policy=compact,delete message.max.bytes=2000000 \\
        max.connections.per.ip.overrides=127.0.0.2:5
    python -m tools.recorders.record_configs 4.4.0 127.0.0.1:29392 definitions.json server.properties
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.conformance.wire import Wire

FILE = Path("tests/conformance/data/kafka_configs.json")
TOPIC, BROKER = 2, 4
SET = 0
OVERRIDES = {
    "cleanup.policy": " delete , compact",
    "retention.ms": "1000",
    "min.cleanable.dirty.ratio": "0.00001",
    "preallocate": "TRUE",
    "internal.segment.bytes": "4096",
    "leader.replication.throttled.replicas": "*",
    "segment.bytes": "+2000000",
}
TOPICS: tuple[tuple[dict[str, str], list[str] | None], ...] = (
    ({}, None),
    (OVERRIDES, None),
    (OVERRIDES, ["retention.ms", "nope", "cleanup.policy", "segment.ms"]),
)
FORMATTED = {"min.insync.replicas": "1"}
"""What `kafka-storage format` sets for the whole cluster (KIP-966)."""
CLUSTER_WIDE = {
    "log.retention.ms": "5000",
    "compression.type": "zstd",
    "log.cleaner.min.cleanable.ratio": "0.25",
    "max.connections": "1000",
    "no.such.key": "x",
}
PER_BROKER = {
    "compression.type": "gzip",
    "log.flush.interval.ms": "7000",
    "log.segment.bytes": "2000000",
    "log.cleanup.policy": " compact",
}


def main(release: str, address: str, definitions: str, properties: str) -> None:
    host, _, port = address.rpartition(":")
    wire = Wire(host, int(port), timeout=20)
    names = make_topics(wire)
    scenarios = [scenario(wire, names, "static", {}, {})]
    alter(wire, "", CLUSTER_WIDE)
    scenarios.append(scenario(wire, names, "cluster-wide", {}, CLUSTER_WIDE))
    alter(wire, "1", PER_BROKER)
    scenarios.append(scenario(wire, names, "per-broker over cluster-wide", PER_BROKER, CLUSTER_WIDE))
    defined = json.loads(Path(definitions).read_text())
    read_only = {row[0]: row[3] for row in scenarios[0]["broker"]}
    static = static_of(Path(properties))
    recorded = {
        "about": (
            f"Recorded from Apache Kafka {release}: its definitions of configurations, and its DescribeConfigs v4 "
            "answers. Rows: name, value, source, read only, sensitive, type, synonyms."
        ),
        "topic_definitions": [[*row, None] for row in defined["topic"]],
        "broker_definitions": [[*row, read_only.get(row[0])] for row in defined["broker"]],
        "group_definitions": [[*row, None] for row in defined["group"]],
        "static": static,
        "scenarios": scenarios,
    }
    FILE.write_text(text_of(recorded, static["log.dirs"]))
    sys.stdout.write(f"{len(defined['broker'])} definitions of brokers, {len(scenarios[0]['broker'])} rows\n")


def make_topics(wire: Wire) -> list[str]:
    names = [f"configs-{int(time.time())}-{index}" for index in range(len(TOPICS))]
    for name, (overrides, _) in zip(names, TOPICS, strict=True):
        settings = [{"name": key, "value": value} for key, value in overrides.items()]
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": settings}
        created = wire.call("create_topics", 7, {"topics": [topic], "timeout": 10_000})
        assert created["topics"][0]["error_code"] == "0 NONE", created
    time.sleep(2)
    return names


def alter(wire: Wire, broker: str, values: dict[str, str]) -> None:
    configs = [{"name": key, "config_operation": SET, "value": value} for key, value in values.items()]
    resource = {"resource_type": BROKER, "resource_name": broker, "configs": configs}
    answer = wire.call("incremental_alter_configs", 1, {"resources": [resource], "validate_only": False})
    assert answer["responses"][0]["error_code"] == "0 NONE", answer
    time.sleep(2)


def scenario(
    wire: Wire, names: list[str], label: str, per_broker: dict[str, str], cluster_wide: dict[str, str]
) -> dict[str, Any]:
    topics = [
        {"overrides": overrides, "keys": keys, "rows": describe(wire, TOPIC, name, keys)}
        for name, (overrides, keys) in zip(names, TOPICS, strict=True)
    ]
    return {
        "label": label,
        "dynamic_broker": per_broker,
        "dynamic_default": FORMATTED | cluster_wide,
        "topics": topics,
        "broker": describe(wire, BROKER, "1", None),
        "broker_default": describe(wire, BROKER, "", None),
    }


def describe(wire: Wire, kind: int, name: str, keys: list[str] | None) -> list[list[Any]]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    asked = {"resources": [resource], "include_synonyms": True, "include_documentation": False}
    answer = wire.call("describe_configs", 4, asked)
    (result,) = answer["results"]
    assert result["error_code"] == "0 NONE", result
    return [row_of(config) for config in result["configs"]]


def row_of(config: dict[str, Any]) -> list[Any]:
    synonyms = [[s["name"], s["value"], s["source"]] for s in config["synonyms"]]
    flags = (config["read_only"], config["is_sensitive"], config["config_type"])
    return [config["name"], config["value"], config["config_source"], *flags, synonyms]


def static_of(properties: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in properties.read_text().splitlines() if line)
    return {name: value for name, _, value in lines}


def text_of(recorded: dict[str, Any], data: str) -> str:
    """JSON with a row a line; the node's data folder is `/data` in it."""
    text = json.dumps(recorded, ensure_ascii=False).replace(data, "/data")
    for beginning in ('["', '{"label"', '"topics"', '"broker'):
        text = text.replace(f", {beginning}", f",\n{beginning}").replace(f"[{beginning}", f"[\n{beginning}")
    return text + "\n"


if __name__ == "__main__":
    main(*sys.argv[1:])
