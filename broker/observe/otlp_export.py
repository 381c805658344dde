"""Sends the metrics of `/metrics` by OpenTelemetry's protocol, from time to time (the extra `otlp`).

The library that sends takes a while to load, and blocks: both are done in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import structlog

from broker.background import Periodic
from broker.config.broker_config import BrokerConfig
from broker.observe.metrics import Metrics
from broker.process import own_version
from timing.clock import Clock

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from prometheus_client.metrics_core import Metric

    from broker.observe.collector import MetricsReader

logger = structlog.get_logger(__name__)

ENDPOINT = "odradek.otlp.endpoint"
LIBRARY = "opentelemetry.exporter.otlp.proto.http"
TIMEOUT_S = 5.0
"""How long a request may take, with all attempts."""


class OtlpError(Exception):
    """The metrics cannot be exported as configured."""


class OtlpExport:
    """Exports every `interval_ms` to `endpoint`, a URL; a failure is logged, and the next time it is tried again."""

    def __init__(self, metrics: Metrics, clock: Clock, endpoint: str, interval_ms: int, node_id: int) -> None:
        self._metrics = metrics
        self._clock = clock
        self._endpoint = endpoint
        self._interval_ms = interval_ms
        self._resource = {
            "service.name": "odradek",
            "service.version": own_version(),
            "service.instance.id": str(node_id),
        }
        self._start_ms = clock.wall_ms()
        self._periodic = Periodic(clock)
        self._tools: tuple[OTLPMetricExporter, MetricsReader] | None = None

    @classmethod
    def of(cls, config: BrokerConfig, metrics: Metrics, clock: Clock) -> OtlpExport | None:
        """The one that the configuration asks for, if any."""
        endpoint = config.optional_string(ENDPOINT)
        if not endpoint:
            return None
        return cls(metrics, clock, endpoint, config.integer("odradek.otlp.interval.ms"), config.node_id)

    def begin(self) -> None:
        self._periodic.every(self._interval_ms, "export of metrics", self.export)

    async def stop(self) -> None:
        """Give up what is being sent, and send no more."""
        if self._tools is not None:
            await asyncio.to_thread(self._tools[0].shutdown)
        await self._periodic.stop()

    async def export(self) -> None:
        """Send the metrics as they are now."""
        if self._tools is None:
            self._tools = await asyncio.to_thread(self._load)
        exporter, reader = self._tools
        await reader.prepare()
        makes = []
        for make in reader.ask():
            makes.append(make)
            await asyncio.sleep(0)
        if not await asyncio.to_thread(self._send, exporter, makes, self._clock.wall_ms()):
            advice = f"look whether {ENDPOINT} is right and something listens there"
            logger.warning("metrics not exported", endpoint=self._endpoint, advice=advice)

    def _load(self) -> tuple[OTLPMetricExporter, MetricsReader]:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        from broker.observe.collector import MetricsReader

        return OTLPMetricExporter(self._endpoint, timeout=TIMEOUT_S), MetricsReader(self._metrics)

    def _send(self, exporter: OTLPMetricExporter, makes: Sequence[Callable[[], Metric | None]], now_ms: int) -> bool:
        """Whether the metrics have arrived. Blocking."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        from broker.observe.otlp_conversion import converted

        families = filter(None, (make() for make in makes))
        data = converted(families, self._resource, self._start_ms, now_ms)
        return exporter.export(data) is MetricExportResult.SUCCESS


def check_export(config: BrokerConfig) -> None:
    """Raises OtlpError if the metrics are to be exported and cannot be."""
    endpoint = config.optional_string(ENDPOINT)
    if not endpoint:
        return
    if not endpoint.startswith(("http://", "https://")):
        raise OtlpError(f"{ENDPOINT} = {endpoint!r}: expected a URL such as http://127.0.0.1:4318/v1/metrics")
    try:
        is_there = find_spec(LIBRARY) is not None
    except ModuleNotFoundError:  # not even the package above it
        is_there = False
    if not is_there:
        raise OtlpError(f"{ENDPOINT} needs a library that is not installed: pip install '/path/to/odradek[otlp]'")
