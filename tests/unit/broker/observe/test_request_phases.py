"""Where the time of requests goes, as quantiles under the names that the JMX exporter gives Kafka's."""

from __future__ import annotations

from broker.observe.metrics import Metrics, RecentRates
from broker.observe.node_metrics import register_phases
from tests.doubles.clock import ManualClock
from tests.unit.broker.scraping import only, samples

GROUP = "kafka_network_requestmetrics_"


def phase(found: dict[str, float], name: str, request: str) -> list[float]:
    """The quantiles of a phase, from the median on."""
    quantiles = only(found, f'{GROUP}{name}{{quantile="')
    return [value for label, value in quantiles.items() if label.endswith(f'request="{request}"}}')]


async def test_local_and_remote_time_of_the_last_half_minute() -> None:
    clock, metrics = ManualClock(), Metrics()
    rates = RecentRates(clock.monotonic_ms)
    register_phases(metrics, rates)
    fetch = metrics.requests["fetch"]
    for _ in range(90):  # answered at once
        fetch.done(4, 0.2)
    for _ in range(10):
        fetch.done(4, 500)
        fetch.waited(500, 499.6)
    await clock.run(1000)
    found = samples(metrics)
    assert phase(found, "localtimems", "Fetch") == [0.25, 0.25, 0.5, 0.5, 0.5, 0.5]
    assert phase(found, "remotetimems", "Fetch") == [0.1, 0.1, 500, 500, 500, 500]
    for name in ("requestqueuetimems", "responsequeuetimems", "responsesendtimems"):
        for request in ("Fetch", "FetchConsumer", "FetchFollower"):
            assert phase(found, name, request) == [0] * 6
    for _ in range(6):
        await rates.note()
    await clock.run(1000)
    fetch.done(4, 2000)
    assert phase(samples(metrics), "localtimems", "Fetch") == [2500] * 6, "what was long ago counts no more"


def test_an_api_that_was_not_used_has_no_series() -> None:
    metrics = Metrics()
    register_phases(metrics, RecentRates(ManualClock().monotonic_ms))
    assert only(samples(metrics), GROUP) == {}
