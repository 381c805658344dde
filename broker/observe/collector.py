"""Renders a node's metrics for Prometheus, under the names that the JMX exporter gives Kafka's.

Import it only where metrics are served: loading prometheus_client takes a while. Rule files of the JMX exporter differ,
and dashboards are made for one of them. Our names are those of Strimzi's rules where these have a name; the others are
rendered, too. Confluent's rules leave a meter its name in Kafka (`bytesinpersec`, a count all the same) and join the
words of a type (`socketservermetrics`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import structlog
from prometheus_client import GCCollector, Info, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from broker.observe.metrics import Family, Histogram, MetricKind, Metrics, Reading, Values
from broker.process import KAFKA_VERSION, own_version
from protocol.api.table import API_BY_NAME

_METERS = (
    "kafka_controller_controllerstats_",
    "kafka_network_requestmetrics_",
    "kafka_server_brokertopicmetrics_",
    "kafka_server_fetchsessioncache_",
    "kafka_server_replicamanager_",
)
"""Types whose counts are Kafka's meters, `...PerSec`."""

_TYPES = {
    "kafka_server_broker_metadata_metrics_": "kafka_server_brokermetadatametrics_",
    "kafka_server_raft_metrics_": "kafka_server_raftmetrics_",
    "kafka_server_socket_server_metrics_": "kafka_server_socketservermetrics_",
}
_SINGLE = {
    "kafka_network_socketserver_networkprocessoravgidle_percent": (
        "kafka_network_socketserver_networkprocessoravgidlepercent"
    ),
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": (
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate"
    ),
}


def other_names(family: Metric) -> Iterator[Metric]:
    """The family once more, under the other name if it has one."""
    name = _other_name(family)
    if name is not None:
        copy = GaugeMetricFamily(name, family.documentation)
        copy.samples = [sample._replace(name=name) for sample in family.samples]
        yield copy


def _other_name(family: Metric) -> str | None:
    name = family.name
    if family.type == "counter":
        return f"{name}persec" if name.startswith(_METERS) else None
    if family.type != "gauge":
        return None
    prefix = next((prefix for prefix in _TYPES if name.startswith(prefix)), None)
    return _SINGLE.get(name) if prefix is None else _TYPES[prefix] + name.removeprefix(prefix)


logger = structlog.get_logger(__name__)

# (name under kafka_server_brokertopicmetrics_, attribute of TopicCounters, documentation)
TOPIC_COUNTERS = (
    ("messagesin_total", "messages_in", "Records appended for producers."),
    ("bytesin_total", "bytes_in", "Bytes of record batches appended for producers."),
    ("bytesout_total", "bytes_out", "Bytes of record batches sent to consumers."),
    ("totalproducerequests_total", "total_produce_requests", "Partitions named by Produce requests."),
    ("totalfetchrequests_total", "total_fetch_requests", "Partitions read for Fetch requests."),
    ("failedproducerequests_total", "failed_produce_requests", "Appends for producers that failed."),
    ("failedfetchrequests_total", "failed_fetch_requests", "Reads for consumers that failed."),
)


def process_registry() -> CollectorRegistry:
    """A separate registry with prometheus_client's metrics of this process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    build = Info(
        "odradek_build", "The versions of this broker and of the Kafka whose protocol it speaks.", registry=registry
    )
    build.info({"version": own_version(), "kafka": KAFKA_VERSION})
    return registry


class Scrape(Collector):
    """One scrape, as prometheus_client's encoders take it: they turn what was read into families while encoding.

    `makes` are the results of the steps of `MetricsReader.ask`; the metrics of the process follow.
    """

    def __init__(self, makes: Iterable[Callable[[], Metric | None]], process: CollectorRegistry) -> None:
        self._makes = tuple(makes)
        self._process = process

    def collect(self) -> Iterator[Metric]:
        for family in filter(None, (make() for make in self._makes)):
            yield family
            yield from other_names(family)
        yield from self._process.collect()


class MetricsReader:
    """Reads plain counters for prometheus_client, anew for every scrape.

    A caller of `ask` may give the loop a turn between two steps, and make the families in another thread.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def prepare(self) -> None:
        """Ask other brokers what is theirs to know; await this before `ask`."""
        await asyncio.gather(*(question() for question in self._metrics.questions))

    def ask(self) -> Iterator[Callable[[], Metric | None]]:
        """The steps. Each reads something of the node, and returns the function that makes a family (or None) from it.

        That function may run in any thread.
        """
        for walk in self._metrics.walks:
            for _ in walk():
                yield _nothing
        for family in self._own():
            yield partial(_same, family)
        for reading in tuple(self._metrics.readings.values()):
            yield self._read(reading)
        for families in self._metrics.families:
            for found in families():
                yield partial(_made, found)

    def _own(self) -> Iterator[Metric]:
        yield from self._topics()
        yield from self._requests()
        lag = HistogramMetricFamily(
            "odradek_loop_lag_seconds", "How late a timer of the event loop was served.", labels=()
        )
        _add_histogram(lag, (), self._metrics.loop_lag_s)
        yield lag

    def _topics(self) -> Iterator[Metric]:
        total, by_topic = self._metrics.all_topics(), self._metrics.by_topic()
        for name, attribute, documentation in TOPIC_COUNTERS:
            family = CounterMetricFamily(
                f"kafka_server_brokertopicmetrics_{name}",
                f"{documentation} Without a topic: over all topics, also deleted ones.",
                labels=("topic",),
            )
            family.add_metric((), getattr(total, attribute))
            for topic, counters in by_topic.items():
                family.add_metric((topic,), getattr(counters, attribute))
            yield family

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "kafka_network_requestmetrics_requests_total", "Requests answered.", labels=("request", "version")
        )
        errors = CounterMetricFamily(
            "kafka_network_requestmetrics_errors_total",
            "Errors in answers; one answer may carry several.",
            labels=("request", "error"),
        )
        times = HistogramMetricFamily(
            "kafka_network_requestmetrics_totaltimems",
            "Milliseconds from a request read to its answer.",
            labels=("request",),
        )
        for api, counters in self._metrics.requests.items():
            request = API_BY_NAME[api].kafka_name
            for version, count in counters.by_version.items():
                requests.add_metric((request, str(version)), count)
            if api == "fetch":  # as Kafka does: all, and once more by who asks
                consumers, followers = self._metrics.fetches_answered()
                requests.add_metric(("FetchConsumer", ""), consumers)
                requests.add_metric(("FetchFollower", ""), followers)
            for error, count in counters.errors.items():
                errors.add_metric((request, error.name.upper()), count)
            _add_histogram(times, (request,), counters.total_time_ms)
        yield from (requests, errors, times)

    def _read(self, reading: Reading) -> Callable[[], Metric | None]:
        try:
            values = reading.read()
            if not isinstance(values, int | float) and not callable(values):
                values = list(values)
        except Exception:
            logger.exception("metric not read", metric=reading.name)
            return _nothing
        return partial(self._family, reading, values)

    def _family(self, reading: Reading, values: Values) -> Metric | None:
        """The family, or None if it cannot be made, so that the other metrics are still reported."""
        new = GaugeMetricFamily if reading.kind is MetricKind.GAUGE else CounterMetricFamily
        family = new(reading.name, reading.documentation, labels=reading.labels)
        if isinstance(values, int | float):
            family.add_metric((), values)
            return family
        try:
            for labels, value in values() if callable(values) else values:
                family.add_metric(labels, value)
        except Exception:
            logger.exception("metric not read", metric=reading.name)
            return None
        return family


def _nothing() -> None:
    """Make no family."""


def _same(family: Metric) -> Metric:
    return family


def _made(family: Family) -> Metric:
    new = GaugeMetricFamily if family.kind is MetricKind.GAUGE else CounterMetricFamily
    metric = new(family.name, family.documentation)
    for labels, value in family.rows:
        metric.add_sample(family.name, dict(labels), value)
    return metric


def _add_histogram(family: HistogramMetricFamily, labels: tuple[str, ...], histogram: Histogram) -> None:
    bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    family.add_metric(labels, list(zip(bounds, histogram.cumulative(), strict=True)), histogram.sum)
