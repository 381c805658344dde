"""Kafka's quantiles of the times of requests, by the part of the way that they took (`RequestMetrics`).

They are of the last half minute, and as exact as the buckets of the histograms. Three of the parts take no time here:
a request is handled in the turn of the loop in which it was read, and an answer is handed to the kernel in the turn in
which it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from broker.monitoring.metrics import TIME_BOUNDS_MS, Labelled, Metrics, RequestCounters, bound_of
from broker.monitoring.recent_rates import RecentRates
from protocol.api.table import API_BY_NAME

GROUP = "kafka_network_requestmetrics_"
QUANTILES = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99, "0.999": 0.999}
MEASURED: Mapping[str, tuple[str, Callable[[RequestCounters], list[int]]]] = {
    "localtimems": ("Milliseconds that the broker was busy with a request", RequestCounters.local_counts),
    "remotetimems": ("Milliseconds that a request waited for data, members or brokers", RequestCounters.remote_counts),
}
NO_TIME = {
    "requestqueuetimems": "Milliseconds from a request read to its handling",
    "responsequeuetimems": "Milliseconds from an answer made to its sending",
    "responsesendtimems": "Milliseconds of handing an answer to the kernel",
}


def register_phases(metrics: Metrics, rates: RecentRates) -> None:
    """Register the metrics for `/metrics`."""
    for name, (documentation, counts) in MEASURED.items():
        recent = rates.of(partial(_counts, metrics, counts))
        metrics.gauge(
            GROUP + name,
            f"{documentation}, of the last half minute, as quantiles.",
            ("request", "quantile"),
            partial(_quantiles, recent),
        )
    for name, documentation in NO_TIME.items():
        metrics.gauge(
            GROUP + name,
            f"{documentation}: none here, it is the same turn of the event loop.",
            ("request", "quantile"),
            partial(_zeros, metrics),
        )


def _counts(metrics: Metrics, counts: Callable[[RequestCounters], list[int]]) -> dict[tuple[str, ...], float]:
    """How many requests there were of each API in each bucket that is not empty."""
    return {
        (API_BY_NAME[api].kafka_name, str(bucket)): count
        for api, counters in metrics.requests.items()
        for bucket, count in enumerate(counts(counters))
        if count
    }


def _quantiles(recent: Callable[[], Labelled]) -> Labelled:
    by_api: dict[str, list[float]] = {}
    for (api, bucket), rate in recent():
        by_api.setdefault(api, [0.0] * (len(TIME_BOUNDS_MS) + 1))[int(bucket)] = rate
    return [
        ((api, quantile), bound_of(TIME_BOUNDS_MS, counts, share))
        for api, counts in by_api.items()
        for quantile, share in QUANTILES.items()
    ]


def _zeros(metrics: Metrics) -> Labelled:
    answered = [API_BY_NAME[api].kafka_name for api, counters in metrics.requests.items() if counters.by_version]
    if "Fetch" in answered:
        answered += ["FetchConsumer", "FetchFollower"]
    return [((api, quantile), 0) for api in answered for quantile in QUANTILES]
