"""What the dashboards that people have for Kafka ask for, looked for in the `/metrics` of a broker that has worked.

`dashboards.json` has the metrics and labels that their expressions name, not the dashboards. Labels that a scrape adds
(job, instance, pod and the like) are left out; a label's value there is one that an expression demands.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from broker.observe.collector import other_names
from odradek import Broker
from tools import metrics_table

ROOT = Path(__file__).parents[2]
DASHBOARDS = json.loads((Path(__file__).parent / "dashboards.json").read_text())

FOLLOWERS = "is there for every API but `FetchFollower`: fetches of followers are timed with all of `Fetch`"
WITHOUT = {
    "container_": "is of Kubernetes, not of a broker",
    "kubelet_": "is of Kubernetes, not of a broker",
    "jvm_": "there is no JVM: see `process_resident_memory_bytes` and `odradek_gc_seconds_total`",
    "kafka_log_log_tiersize": "is of Confluent Server, not of Apache Kafka",
    "kafka_tier_": "is of Confluent Server, not of Apache Kafka",
    "kafka_server_replicamanager_straypartitions": "is of Confluent Server, not of Apache Kafka",
    "kafka_network_acceptor_": "there is no thread that accepts connections",
    "kafka_network_requestmetrics_localtimems": FOLLOWERS,
    "kafka_network_requestmetrics_remotetimems": FOLLOWERS,
    "kafka_network_requestmetrics_totaltimems": (
        "is a histogram here: "
        "`histogram_quantile(0.99, sum by (le, request) (rate(kafka_network_requestmetrics_totaltimems_bucket[5m])))`"
    ),
    "kafka_server_replicafetchermanager_minfetchrate": "is not measured; `..._maxlag` is",
    "kafka_controller_controllereventmanager_": "the controller has no queue of events",
    "kafka_server_raft_metrics_election_latency_max": "the only voter needs no time to be elected",
}
"""Why a metric with this prefix finds no series."""

Found = dict[str, list[dict[str, str]]]
"""The labels of each series, by metric."""


@pytest.fixture(scope="module")
def found() -> Iterator[Found]:
    with Broker({"odradek.http.port": 0}) as broker:
        clients = work(broker)
        with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        del clients
    series: Found = {}
    for family in text_string_to_metric_families(text):
        series[family.name] = []  # also of one that has no series now
        for sample in family.samples:
            series.setdefault(sample.name, []).append(sample.labels)
    yield series


def work(broker: Broker) -> list[object]:
    """Let the broker do some of everything, an error among it; return clients that are still connected."""
    servers: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer(servers)
    for number in range(10):
        producer.produce("letters", value=str(number))
    assert producer.flush(30) == 0
    consumer = Consumer({**servers, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["letters"])
    read = 0
    while read < 5:
        read += len(consumer.consume(5, timeout=30))
    consumer.commit(asynchronous=False)
    consumer.assign([TopicPartition("letters", 0, 1_000_000)])  # out of range: it reads from the beginning again
    assert consumer.consume(1, timeout=30)
    admin = AdminClient(servers)
    admin.list_topics(timeout=30)
    consumer.close()
    return [producer, admin]


def finds(found: Found, need: dict[str, object]) -> bool:
    wanted = need["labels"]
    assert isinstance(wanted, dict)
    return any(
        all(name in labels and value in ("", labels[name]) for name, value in wanted.items())
        for labels in found.get(str(need["metric"]), ())
    )


def reason(metric: str) -> str | None:
    return next((why for prefix, why in WITHOUT.items() if metric.startswith(prefix)), None)


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_what_a_dashboard_asks_for_finds_a_series_or_has_a_reason(dashboard: str, found: Found) -> None:
    missing = {need["metric"] for need in DASHBOARDS[dashboard] if not finds(found, need)}
    assert {metric for metric in missing if reason(metric) is None} == set()


def table(found: Found) -> str:
    """The part of docs/metrics.md about dashboards."""
    rows = ["| dashboard | of what it asks for | is there |", "| --- | --- | --- |"]
    without: dict[str, None] = {}
    for dashboard, needs in DASHBOARDS.items():
        metrics = sorted({need["metric"] for need in needs})
        missing = sorted({need["metric"] for need in needs if not finds(found, need)})
        without.update(dict.fromkeys(missing))
        rows.append(f"| {dashboard} | {len(metrics)} metrics | {len(metrics) - len(missing)} |")
    rows += ["", "| without a series | why |", "| --- | --- |"]
    rows += [f"| `{metric}` | {reason(metric)} |" for metric in sorted(without)]
    return "\n".join(rows)


def test_the_documentation_has_the_same_list(found: Found) -> None:
    assert table(found) in (ROOT / "docs" / "metrics.md").read_text()


def test_no_reason_is_left_over(found: Found) -> None:
    missing = {need["metric"] for needs in DASHBOARDS.values() for need in needs if not finds(found, need)}
    assert [prefix for prefix in WITHOUT if not any(metric.startswith(prefix) for metric in missing)] == []


# -- our own

OURS = json.loads((ROOT / "docker" / "grafana" / "odradek.json").read_text())
OF_PROMETHEUS = {"up"}
OF_A_CLUSTER = {"odradek_controller_silence_ms"}
PANELS = [panel for panel in OURS["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]


def metrics_of(expression: str) -> set[str]:
    """The metrics that one of our expressions names: words with an underscore that are neither labels nor functions."""
    without_labels = re.sub(r"\{[^}]*\}|\b(by|on)\s*\([^)]*\)|\[[^]]*\]", "", expression)
    return {word for word in re.findall(r"\b[a-z]\w*\b(?!\s*\()", without_labels) if "_" in word or word == "up"}


def test_each_panel_of_our_dashboard_finds_its_metrics_and_labels(found: Found) -> None:
    for expression in EXPRESSIONS:
        names = metrics_of(expression)
        assert names, expression
        for name in names:
            assert name in found, expression
            labels = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")}
            known = {label for series in found[name] for label in series} | {"instance"}
            assert not found[name] or labels <= known, expression


def test_our_dashboard_says_what_it_shows_and_where_its_data_is() -> None:
    assert len({panel["id"] for panel in OURS["panels"]}) == len(OURS["panels"])
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"]["uid"] == "${datasource}"
    names = {variable["name"] for variable in OURS["templating"]["list"]} | {"__rate_interval"}
    for expression in EXPRESSIONS:
        assert {*re.findall(r"\$(\w+)", expression)} <= names, expression


def test_each_alert_is_of_metrics_that_there_are_and_says_what_to_do(found: Found) -> None:
    yaml: Any = pytest.importorskip("yaml")
    alerts = yaml.safe_load((ROOT / "docker" / "alerts.yml").read_text())
    for rule in alerts["groups"][0]["rules"]:
        assert metrics_of(rule["expr"]) - OF_PROMETHEUS - OF_A_CLUSTER <= {*found}, rule["alert"]
        assert metrics_of(rule["expr"]), rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["description"].endswith(".")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of Prometheus, is not installed")
def test_prometheus_takes_our_alerts_and_expressions(tmp_path: Path) -> None:
    expressions = [re.sub(r"\$__rate_interval", "1m", expression) for expression in EXPRESSIONS]
    recorded = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(expressions)]
    rules = tmp_path / "panels.yml"
    rules.write_text(json.dumps({"groups": [{"name": "panels", "rules": recorded}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", str(rules), str(ROOT / "docker" / "alerts.yml")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_metric_of_a_broker_is_listed_in_the_documentation(found: Found) -> None:
    """In two steps: the list is what the code registers, and a broker that has worked says nothing else."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert page == metrics_table.page(page), "python -m tools.metrics_table writes it"
    listed = {row[0] for row in metrics_table.registered()}
    assert {"kafka_controller_kafkacontroller_offlinepartitionscount", "odradek_controller_silence_ms"} <= listed
    known = listed | {_second_name(name) for name in listed}
    derived = re.compile(r"_(bucket|sum|count|created|total|info)$")
    unknown = {name for name in found if name not in known and f"{name}_total" not in known}
    unknown = {name for name in unknown if derived.sub("", name) not in known}
    assert {name for name in unknown if not name.startswith("kafka_client_")} == set()


def _second_name(name: str) -> str | None:
    """The name of the same by Confluent's rules."""
    counter = name.endswith("_total")
    family: Any = (CounterMetricFamily if counter else GaugeMetricFamily)(name, "")
    return next((other.name for other in other_names(family)), None)
