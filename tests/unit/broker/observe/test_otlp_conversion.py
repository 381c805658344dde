"""Metrics of Prometheus as OpenTelemetry's."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry")

from opentelemetry.sdk.metrics.export import Histogram

from broker.observe.collector import MetricsReader
from broker.observe.metrics import Metrics
from broker.observe.otlp_conversion import converted


def test_a_histogram_has_the_counts_of_each_bucket() -> None:
    metrics = Metrics()
    for time_ms in (0.2, 0.2, 3, 90_000):
        metrics.requests["fetch"].done(4, time_ms)
    metrics.requests["produce"].done(9, 1)
    families = filter(None, (make() for make in MetricsReader(metrics).ask()))
    ((scope,),) = (
        resource.scope_metrics for resource in converted(families, {"a": "b"}, 1_000, 2_000).resource_metrics
    )
    (data,) = (one.data for one in scope.metrics if one.name == "kafka_network_requestmetrics_totaltimems")
    assert isinstance(data, Histogram)
    fetch, produce = data.data_points
    assert fetch.attributes == {"request": "Fetch"}
    assert (fetch.count, fetch.sum, produce.count) == (4, pytest.approx(90_003.4), 1)
    assert len(fetch.bucket_counts) == len(fetch.explicit_bounds) + 1
    assert [
        (bound, count) for bound, count in zip(fetch.explicit_bounds, fetch.bucket_counts, strict=False) if count
    ] == [
        (0.25, 2),
        (5, 1),
    ]
    assert fetch.bucket_counts[-1] == 1
    assert (fetch.start_time_unix_nano, fetch.time_unix_nano) == (1_000_000_000, 2_000_000_000)
