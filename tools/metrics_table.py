"""`python -m tools.metrics_table`: writes the list of all metrics into docs/metrics.md.

The parts of a node register their metrics before they are asked for a number, so that stand-ins of the parts do for the
list; tests/client/test_dashboards.py compares it with what a broker that has worked says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

from prometheus_client.registry import CollectorRegistry

from broker.membership.followed_metadata import FollowedMetadata
from broker.node import Node
from broker.node_state import count_authentications
from broker.observe.client_telemetry import ClientTelemetry
from broker.observe.collector import MetricsReader, process_registry
from broker.observe.metrics import MetricKind, Metrics
from broker.observe.process_metrics import GcTime
from broker.serve import _count_tracebacks

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "metrics.md"
BEGIN, END = "<!-- Written by `python -m tools.metrics_table`; do not edit. -->", "<!-- the end of the list -->"
UNITS = {
    "seconds": "seconds",
    "bytes": "bytes",
    "ms": "milliseconds",
    "percent": "0 to 1",
    "rate": "a second",
    "ratio": "0 to 1",
}
"""Units by the last word of a name."""

Row = tuple[str, tuple[str, ...], str, str]
"""Name, labels, type, meaning."""


def registered() -> Iterator[Row]:
    """All metrics of a broker, alone and as one of several."""
    found: dict[str, Row] = {}
    for metadata in (object, FollowedMetadata):
        node: Any = MagicMock()
        node.local.metrics, node.metadata.__class__ = Metrics(), metadata
        if metadata is FollowedMetadata:
            node.cluster.metadata_log = None
        with patch("broker.node.RecentRates"):  # which read their totals at once
            Node.register_metrics(node)
        _register_others(node)
        for reading in node.local.metrics.readings.values():
            kind = "gauge" if reading.kind is MetricKind.GAUGE else "counter"
            found[reading.name] = (reading.name, reading.labels, kind, reading.documentation)
    yield from found.values()
    own: Any = MetricsReader(Metrics())._own()
    for family in own:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield name, tuple(family._labelnames), family.type, family.documentation
    registry: CollectorRegistry = process_registry()
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label: None for sample in family.samples for label in sample.labels}
        yield name, tuple(labels), family.type, family.documentation


def _register_others(node: Any) -> None:
    """Register what is no part's of a node: of its process, its logins, and metrics of clients."""
    metrics = node.local.metrics
    ClientTelemetry(MagicMock(), metrics, MagicMock(), MagicMock(), 0)
    _count_tracebacks(node, MagicMock())
    count_authentications(metrics, MagicMock())
    with patch("gc.callbacks", []):
        GcTime().begin(metrics)


def unit(name: str, meaning: str) -> str:
    """The unit that the meaning or the name says."""
    if meaning.startswith("Milliseconds") or meaning.endswith("in ms."):
        return "milliseconds"
    if meaning.startswith("Bytes"):
        return "bytes"
    return UNITS.get(name.removesuffix("_total").rpartition("_")[2], "count")


def alerts() -> list[tuple[str, str]]:
    """Pairs of the name and the expression of each alert."""
    rules = (ROOT / "docker" / "alerts.yml").read_text()
    return re.findall(r"- alert: (\w+)\n +expr: (.*?)\n +(?:for|labels|annotations):", rules, re.DOTALL)


def text() -> str:
    """The list, with its marks."""
    rules = alerts()
    lines = [BEGIN, "", "| name | labels | type | unit | meaning | alert |", "| --- | --- | --- | --- | --- | --- |"]
    for name, labels, kind, meaning in sorted(registered()):
        own = re.compile(rf"\b{name}(_bucket|_sum|_count)?\b")
        used = ", ".join(alert for alert, expression in rules if own.search(expression))
        shown = ", ".join(f"`{label}`" for label in labels)
        lines.append(f"| `{name}` | {shown} | {kind} | {unit(name, meaning)} | {meaning.replace('|', '/')} | {used} |")
    return "\n".join([*lines, "", END])


def page(before: str) -> str:
    """The page with the list as it is now."""
    head, _, rest = before.partition(BEGIN)
    return head + text() + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
