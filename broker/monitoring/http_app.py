"""The HTTP port's responses. Import it late and off the loop: aiohttp and prometheus_client take a while to load."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from broker.monitoring import loggers_http
from broker.monitoring.collector import MetricsReader, Scrape, process_registry
from broker.monitoring.metrics import Metrics

Pages = Callable[[web.Request], Awaitable[web.StreamResponse]]
"""Answers requests for any other path than those of the app."""


def make_app(
    metrics: Metrics,
    is_ready: Callable[[], str | None],
    problems: Callable[[], Sequence[str]],
    pages: Pages | None = None,
) -> web.Application:
    """The app with its own routes, and `pages` for all other paths; see `HttpServer` for the functions.

    `/healthz` has status 200 in spite of problems: a restart would not cure a full disk.
    """
    reader, process = MetricsReader(metrics), process_registry()

    async def serve_metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(",".join(request.headers.getall("Accept", [])))
        # Thousands of partitions make a page of megabytes. The broker's state is read on the loop, in small steps;
        # turning it into text, most of the work, needs no state.
        await reader.prepare()
        makes = []
        for make in reader.ask():
            makes.append(make)
            await asyncio.sleep(0)
        body = await asyncio.to_thread(encode, Scrape(makes, process))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def serve_health(_request: web.Request) -> web.Response:
        found = problems()
        return web.Response(text=f"degraded: {'; '.join(found)}" if found else "ok")

    async def serve_ready(_request: web.Request) -> web.Response:
        reason = is_ready()
        return web.Response(text="ready") if reason is None else web.Response(status=503, text=reason)

    app = web.Application()
    app.add_routes(
        [
            web.get("/metrics", serve_metrics),
            web.get("/healthz", serve_health),
            web.get("/v1/status/ready", serve_ready),
            *loggers_http.routes(),
        ]
    )
    if pages is not None:
        app.router.add_route("*", "/{path:.*}", pages)
    return app
