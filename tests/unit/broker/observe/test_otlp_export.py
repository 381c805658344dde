"""The metrics sent by OpenTelemetry's protocol, as a receiver gets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from broker.config.broker_config import BrokerConfig
from broker.observe import otlp_export
from broker.observe.metrics import Metrics
from broker.observe.otlp_export import ENDPOINT, OtlpError, OtlpExport, check_export
from protocol.otlp import decode_points
from tests.doubles.clock import ManualClock

pytest.importorskip("opentelemetry")


@asynccontextmanager
async def receiver(received: list[bytes], status: int = 200) -> AsyncIterator[str]:
    """A collector on loopback; the URL for metrics."""

    async def take(request: web.Request) -> web.Response:
        received.append(await request.read())
        return web.Response(status=status)

    app = web.Application()
    app.router.add_post("/v1/metrics", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1/metrics"
    finally:
        await runner.cleanup()


def counted() -> Metrics:
    metrics = Metrics()
    metrics.produced("letters", messages=3, size=100)
    metrics.requests["fetch"].done(4, 3)
    metrics.gauge("odradek_size", "A size.", ("kind",), lambda: [(("small",), 7)])
    return metrics


async def test_a_receiver_gets_what_prometheus_would() -> None:
    received: list[bytes] = []
    async with receiver(received) as url:
        config = BrokerConfig.of({"node.id": "1", ENDPOINT: url})
        export = OtlpExport.of(config, counted(), ManualClock())
        assert export is not None
        await export.export()
        await export.stop()
    found = {(one.name, one.attributes): one for one in decode_points(received[0])}
    sums = found["kafka_server_brokertopicmetrics_messagesin", (("topic", "letters"),)]
    assert (sums.value, sums.is_sum, sums.is_delta) == (3, True, False)
    assert found["odradek_size", (("kind", "small"),)].value == 7
    for text in (b"service.instance.id", b"kafka_network_requestmetrics_totaltimems"):
        assert text in received[0]


async def test_it_is_sent_again_and_again_and_a_failure_is_a_warning() -> None:
    received: list[bytes] = []
    async with receiver(received, status=400) as url:
        config = BrokerConfig.of({"node.id": "1", ENDPOINT: url, "odradek.otlp.interval.ms": "1000"})
        export = OtlpExport.of(config, counted(), ManualClock())
        assert export is not None
        with capture_logs() as lines:
            await export.export()
            await export.export()
        await export.stop()
    assert len(received) == 2
    assert [line["event"] for line in lines] == ["metrics not exported"] * 2


def test_nothing_is_sent_unless_somebody_wants_it() -> None:
    config = BrokerConfig.of({"node.id": "1"})
    check_export(config)
    assert OtlpExport.of(config, Metrics(), ManualClock()) is None


def test_an_endpoint_must_be_a_url_and_the_library_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OtlpError, match="'localhost:4318': expected a URL such as"):
        check_export(BrokerConfig.of({"node.id": "1", ENDPOINT: "localhost:4318"}))
    config = BrokerConfig.of({"node.id": "1", ENDPOINT: "http://localhost:4318/v1/metrics"})
    check_export(config)
    for missing in ("opentelemetry.no_such", "no_such.at_all"):
        monkeypatch.setattr(otlp_export, "LIBRARY", missing)
        with pytest.raises(OtlpError, match=r"pip install '/path/to/odradek\[otlp\]'"):
            check_export(config)
