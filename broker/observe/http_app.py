"""The HTTP port's responses. Import it late and off the loop: aiohttp and prometheus_client take a while to load.

The levels of the loggers are at `/admin/loggers`, by the paths and bodies of KIP-495 (Kafka Connect's). Only a program
on this machine may change them: not another machine, even through a proxy on this one, and not a page in this machine's
browser.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from broker.http.bodies import BodyError, read_json
from broker.http.hosts import OF_PROXIES, KnownHosts
from broker.logging import LEVELS, logger_levels, set_level
from broker.observe.collector import MetricsReader, Scrape, process_registry
from broker.observe.metrics import Metrics

LOGGERS = "/admin/loggers"
LARGEST_BODY_BYTES = 4096
FROM_ELSEWHERE = ("Origin", *OF_PROXIES)
"""Headers of a page in a browser, and of a proxy on this machine that others come through."""


def routes() -> list[web.RouteDef]:
    return [
        web.get(LOGGERS, _list),
        web.get(f"{LOGGERS}/{{name}}", _get),
        web.put(f"{LOGGERS}/{{name}}", _put),
    ]


async def _list(_request: web.Request) -> web.Response:
    return web.json_response({name: {"level": level} for name, level in logger_levels().items()})


async def _get(request: web.Request) -> web.Response:
    name, levels = request.match_info["name"], logger_levels()
    if name not in levels:
        return _unknown(name)
    return web.json_response({"level": levels[name]})


async def _put(request: web.Request) -> web.Response:
    """Set a level; the answer has the names of all loggers that have another one now."""
    if not _is_local(request):
        return _error(
            403, "Log levels may be changed from this machine only, and not by a page in a browser or a proxy"
        )
    name, before = request.match_info["name"], logger_levels()
    if name not in before:
        return _unknown(name)
    try:
        body = await read_json(request, LARGEST_BODY_BYTES)
    except BodyError as error:
        return _error(error.status, f'The body must be JSON such as {{"level": "DEBUG"}}: {error}')
    level = body.get("level") if isinstance(body, dict) else None
    if not isinstance(level, str) or level.upper() not in LEVELS:
        return _error(400, f"level = {level!r}: expected one of {', '.join(LEVELS)}")
    set_level(name, level.upper())
    after = logger_levels()
    return web.json_response([each for each, found in after.items() if before.get(each) != found])


def _is_local(request: web.Request) -> bool:
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    if peer is None or any(header in request.headers for header in FROM_ELSEWHERE):
        return False
    return ipaddress.ip_address(peer[0]).is_loopback


def _unknown(name: str) -> web.Response:
    return _error(404, f"Logger {name} does not exist")


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error_code": status, "message": message}, status=status)


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
        if (path == METRICS or path.startswith(LOGGERS)) and (problem := hosts.problem(request)):
            return web.Response(status=421, text=problem)
        return await handler(request)

    app = web.Application(middlewares=[check_host])
    app.add_routes(
        [
            web.get(METRICS, serve_metrics),
            web.get("/healthz", serve_health),
            web.get("/v1/status/ready", serve_ready),
            *routes(),
        ]
    )
    if pages is not None:
        app.router.add_route("*", "/{path:.*}", pages)
    return app
