"""What Prometheus would see of a node."""

from __future__ import annotations

from prometheus_client.exposition import generate_latest

from broker.observe.collector import MetricsReader, Scrape, process_registry
from broker.observe.metrics import Metrics


def scrape(metrics: Metrics) -> Scrape:
    return Scrape(MetricsReader(metrics).ask(), process_registry())


def samples(metrics: Metrics) -> dict[str, float]:
    """Every sample, by its name with labels."""
    lines = generate_latest(scrape(metrics)).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def only(found: dict[str, float], prefix: str) -> dict[str, float]:
    return {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
