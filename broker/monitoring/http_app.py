"""The HTTP port's responses. Import it late and off the loop: aiohttp and prometheus_client take a while to load."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from broker.http.hosts import KnownHosts
from broker.monitoring import loggers_http
from broker.monitoring.collector import MetricsReader, Scrape, process_registry
from broker.monitoring.metrics import Metrics

METRICS = "/metrics"

Pages = Callable[[web.Request], Awaitable[web.StreamResponse]]
"""Answers requests for any other path than those of the app."""


def make_app(
    metrics: Metrics,
    is_ready: Callable[[], str | None],
    problems: Callable[[], Sequence[str]],
    hosts: KnownHosts,
    pages: Pages | None = None,
) -> web.Application:
    """The app with its own routes, and `pages` for all other paths; see `HttpServer` for the functions.

    `/healthz` has status 200 in spite of problems: a restart would not cure a full disk. Health is answered by whatever
    name it is asked for; `pages` judge that themselves.
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

    @web.middleware
    async def check_host(request: web.Request, handler: Pages) -> web.StreamResponse:
        path = request.path
        if (path == METRICS or path.startswith(loggers_http.LOGGERS)) and (problem := hosts.problem(request)):
            return web.Response(status=421, text=problem)
        return await handler(request)

    app = web.Application(middlewares=[check_host])
    app.add_routes(
        [
            web.get(METRICS, serve_metrics),
            web.get("/healthz", serve_health),
            web.get("/v1/status/ready", serve_ready),
            *loggers_http.routes(),
        ]
    )
    if pages is not None:
        app.router.add_route("*", "/{path:.*}", pages)
    return app
