"""What the HTTP port answers. Import it late and off the loop: aiohttp and prometheus_client take a while to load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from broker.metrics import Metrics
from broker.metrics_collector import registry_of


class _Collected(Collector):
    """Metric families that were read already, as prometheus_client's encoders take them."""

    def __init__(self) -> None:
        self.families: list[Metric] = []

    def collect(self) -> list[Metric]:
        return self.families


def make_app(metrics: Metrics, is_ready: Callable[[], str | None]) -> web.Application:
    """The three routes. `is_ready` gives None, or the reason why the node does not serve."""
    registry = registry_of(metrics)

    async def serve_metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(",".join(request.headers.getall("Accept", [])))
        # Thousands of partitions make a page of megabytes. The broker's state is read on the loop, one family a turn;
        # making text of it, which is most of the work, needs no state.
        collected = _Collected()
        for family in registry.collect():
            collected.families.append(family)
            await asyncio.sleep(0)
        body = await asyncio.to_thread(encode, collected)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def serve_health(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def serve_ready(_request: web.Request) -> web.Response:
        reason = is_ready()
        return web.Response(text="ready") if reason is None else web.Response(status=503, text=reason)

    app = web.Application()
    app.add_routes(
        [
            web.get("/metrics", serve_metrics),
            web.get("/healthz", serve_health),
            web.get("/v1/status/ready", serve_ready),
        ]
    )
    return app
