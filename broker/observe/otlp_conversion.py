"""Metrics of Prometheus as OpenTelemetry's. Import it only where they are exported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

NS_A_MS = 1_000_000
CUMULATIVE = AggregationTemporality.CUMULATIVE
Times = tuple[int, int]
"""When counting began, and now, in nanoseconds."""


def converted(families: Iterable[Family], resource: Mapping[str, str], start_ms: int, now_ms: int) -> MetricsData:
    """The families as OpenTelemetry's metrics; `resource` says whose they are."""
    times = (start_ms * NS_A_MS, now_ms * NS_A_MS)
    metrics = [_metric(family, times) for family in families if family.samples]
    scope = ScopeMetrics(InstrumentationScope("odradek"), metrics, schema_url="")
    return MetricsData([ResourceMetrics(Resource(dict(resource)), [scope], schema_url="")])


def _metric(family: Family, times: Times) -> Metric:
    data: Gauge | Sum | Histogram
    if family.type == "histogram":
        data = Histogram(list(_histograms(family.samples, times)), CUMULATIVE)
    elif family.type == "counter":
        data = Sum(list(_numbers(family.samples, times)), CUMULATIVE, is_monotonic=True)
    else:
        data = Gauge(list(_numbers(family.samples, times)))
    return Metric(family.name, family.documentation, unit="", data=data)


def _numbers(samples: Iterable[Sample], times: Times) -> Iterator[NumberDataPoint]:
    return (NumberDataPoint(sample.labels, *times, sample.value) for sample in samples)


def _histograms(samples: Iterable[Sample], times: Times) -> Iterator[HistogramDataPoint]:
    """A point for each run of samples with the same labels: its buckets, each with those below it, count and sum."""
    for labels, of in groupby(samples, _without_bound):
        found = list(of)
        buckets = [(sample.labels["le"], int(sample.value)) for sample in found if sample.name.endswith("_bucket")]
        cumulative = [0, *(count for _, count in buckets)]
        yield HistogramDataPoint(
            dict(labels),
            *times,
            count=cumulative[-1],
            sum=next((sample.value for sample in found if sample.name.endswith("_sum")), 0.0),
            bucket_counts=[after - before for before, after in pairwise(cumulative)],
            explicit_bounds=[float(bound) for bound, _ in buckets if bound != "+Inf"],
            min=None,  # type: ignore[arg-type]  # not known: left out
            max=None,  # type: ignore[arg-type]
        )


def _without_bound(sample: Sample) -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in sample.labels.items() if name != "le")
