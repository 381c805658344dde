"""The metrics that clients have pushed (KIP-714), kept for `/metrics`.

`org.apache.kafka.producer.record.send.rate` is `kafka_client_producer_record_send_rate` there. Its labels are the id of
the client, that of its instance, and the attributes of the number. All is bounded, as clients choose names and labels.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from broker.monitoring.metrics import Family, Kind, Labels, Metrics
from protocol.otlp import Point
from protocol.uuids import to_text

PREFIX = "kafka_client_"
MOST_POINTS = 2_000
"""Numbers read of one push."""
MOST_SERIES = 20_000
MOST_NAMES = 1_000
MOST_ATTRIBUTES = 8
LONGEST_LABEL = 249  # a topic's name fits
INTERVALS_KEPT = 3
"""Push intervals after which a client that is silent is forgotten."""

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.]{0,199}")
_LABEL = re.compile(r"[a-zA-Z][a-zA-Z0-9_.]{0,99}")
_OWN_LABELS = ("client_id", "client_instance_id")


class Pushed(NamedTuple):
    """A number as it is kept; `name` is empty if it cannot have one."""

    name: str
    kind: Kind
    labels: Labels
    value: float
    is_delta: bool


def pushed(point: Point) -> Pushed:
    """What is kept of a number; any thread."""
    kind = Kind.COUNTER if point.is_sum else Kind.GAUGE
    return Pushed(_name(point, kind), kind, _labels(point), point.value, point.is_delta)


@dataclass(slots=True)
class _Client:
    labels: Labels
    kept_until_ms: float = 0.0
    series: dict[tuple[str, Labels], float] = field(default_factory=dict)


class PushedMetrics:
    """What each client said last; the one of which nothing was heard longest first."""

    def __init__(self, metrics: Metrics, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._most_clients = metrics.most.clients
        self._clients: OrderedDict[UUID, _Client] = OrderedDict()
        self._kinds: dict[str, Kind] = {}
        self._series = 0
        self.left_out = 0
        metrics.families.append(self.families)
        metrics.gauge(
            "odradek_client_metrics_series", "Numbers that clients have pushed and that are kept.", (), self._count
        )
        metrics.counter(
            "odradek_client_metrics_left_out_total",
            "Numbers that clients pushed and that are not kept: there are too many, or their names cannot be used.",
            (),
            lambda: self.left_out,
        )

    def take(self, instance_id: UUID, client_id: str, interval_ms: int, numbers: Sequence[Pushed]) -> None:
        """Keep what a client has pushed. A sum since the last push is added to what it pushed before."""
        self._forget_silent()
        client = self._clients.get(instance_id)
        if client is None:
            if len(self._clients) >= self._most_clients:
                self.left_out += len(numbers)
                return
            own = (client_id[:LONGEST_LABEL], to_text(instance_id))
            client = self._clients[instance_id] = _Client(tuple(zip(_OWN_LABELS, own, strict=True)))
        self._clients.move_to_end(instance_id)
        client.kept_until_ms = self._monotonic_ms() + INTERVALS_KEPT * interval_ms
        for number in numbers:
            if not self._keep(client, number):
                self.left_out += 1

    def _keep(self, client: _Client, number: Pushed) -> bool:
        base = number.name.removesuffix("_total")
        if not base or (base not in self._kinds and len(self._kinds) >= MOST_NAMES):
            return False
        if self._kinds.setdefault(base, number.kind) is not number.kind:
            return False
        key = (number.name, number.labels)
        if key not in client.series:
            if self._series >= MOST_SERIES:
                return False
            self._series += 1
        client.series[key] = number.value + (client.series.get(key, 0.0) if number.is_delta else 0.0)
        return True

    def _forget_silent(self) -> None:
        now_ms = self._monotonic_ms()
        for instance_id, client in list(self._clients.items()):
            if client.kept_until_ms <= now_ms:
                self._series -= len(client.series)
                del self._clients[instance_id]
        if not self._clients:
            self._kinds.clear()

    def _count(self) -> int:
        self._forget_silent()
        return self._series

    def families(self) -> list[Family]:
        """All that is kept, by metric."""
        self._forget_silent()
        rows: dict[str, list[tuple[Labels, float]]] = defaultdict(list)
        for client in self._clients.values():
            for (name, labels), value in client.series.items():
                rows[name].append((client.labels + labels, value))
        kinds = self._kinds
        return [Family(kinds[name.removesuffix("_total")], name, "Pushed by clients.", of) for name, of in rows.items()]


def _name(point: Point, kind: Kind) -> str:
    """The metric's name for Prometheus; empty if it cannot have one."""
    if _NAME.fullmatch(point.name) is None:
        return ""
    name = PREFIX + point.name.removeprefix("org.apache.kafka.").replace(".", "_").lower()
    return f"{name.removesuffix('_total')}_total" if kind is Kind.COUNTER else name


def _labels(point: Point) -> Labels:
    """The attributes as labels; those that cannot be are left out."""
    found = {}
    for key, value in islice(point.attributes, MOST_ATTRIBUTES):
        label = key.replace(".", "_")
        if _LABEL.fullmatch(key) is not None and label not in _OWN_LABELS:
            found[label] = value[:LONGEST_LABEL]
    return tuple(sorted(found.items()))
