"""Ask Apache Kafka which values of its settings it takes, and keep the answers in `kafka_bounds.json`.

Run by hand from the repository's root, with what KafkaBounds.java wrote:

    kafka start 29392
    python -m tools.recorders.record_bounds 4.4.0 127.0.0.1:29392 started.json
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance.wire import Wire

FILE = Path("tests/conformance/data/kafka_bounds.json")
DEFINITIONS = Path("tests/conformance/data/kafka_configs.json")
TEXTS = ("", " ", "x", "x,x", "x,,y", ",", "*", "true", "TRUE", "yes", "1", "-1", "none", "DEFAULT")
BITS = {"SHORT": 15, "INT": 31, "LONG": 63}
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
CLIENT_METRICS_DEFINITIONS = (("interval.ms", "INT", "300000"), ("match", "LIST", ""), ("metrics", "LIST", ""))

Takes = Callable[[object], bool]


def main(release: str, address: str, started: str) -> None:
    host, _, port = address.rpartition(":")
    wire = Wire(host, int(port), timeout=20)
    topic = f"bounds-{int(time.time())}"
    made = {"name": topic, "num_partitions": 1, "replication_factor": 1, "configs": []}
    answer = wire.call("create_topics", 7, {"topics": [made], "timeout": 10_000})
    assert answer["topics"][0]["error_code"] == "0 NONE", answer
    time.sleep(1)
    known = json.loads(DEFINITIONS.read_text())
    broker = [row[:3] for row in known["broker_definitions"] if row[6] is False]
    recorded = {
        "about": (
            f"Which values Apache Kafka {release} takes, all else as by default. Rows: name, least and greatest "
            "number, or those of `texts` that it takes. `started`: in server.properties; else in "
            "IncrementalAlterConfigs."
        ),
        "texts": TEXTS,
        "started": json.loads(Path(started).read_text()),
        "broker": [row_of(wire, BROKER, "1", *row) for row in broker],
        "cluster": [row_of(wire, BROKER, "", *row) for row in broker],
        "topic": [row_of(wire, TOPIC, topic, *row[:3]) for row in known["topic_definitions"]],
        "group": [row_of(wire, GROUP, "bounds", *row[:3]) for row in known["group_definitions"]],
        "client_metrics": [row_of(wire, CLIENT_METRICS, "bounds", *row) for row in CLIENT_METRICS_DEFINITIONS],
    }
    FILE.write_text(json.dumps(recorded).replace("[[", "[\n[").replace("], [", "],\n[") + "\n")


def row_of(wire: Wire, kind: int, resource: str, name: str, value_type: str, default: str | None) -> list[Any]:
    def takes(value: object) -> bool:
        config = {"name": name, "config_operation": 0, "value": str(value)}
        asked = {"resource_type": kind, "resource_name": resource, "configs": [config]}
        answer = wire.call("incremental_alter_configs", 1, {"resources": [asked], "validate_only": True})
        return bool(answer["responses"][0]["error_code"] == "0 NONE")

    if value_type not in BITS:
        return [name, [text for text in TEXTS if takes(text)]]
    end = 1 << BITS[value_type]
    begin = next((int(start) for start in (default, 1, 9, 1000) if start is not None and takes(start)), None)
    if begin is None:
        return [name, None, None]
    return [name, last(begin, -end, takes), last(begin, end - 1, takes)]


def last(taken: int, end: int, takes: Takes) -> int:
    """The last number that is taken on the way from `taken` to `end`."""
    if takes(end):
        return end
    while abs(end - taken) > 1:
        middle = (taken + end) // 2
        if takes(middle):
            taken = middle
        else:
            end = middle
    return taken


if __name__ == "__main__":
    main(*sys.argv[1:])
