"""The levels of the loggers over HTTP, by the paths and bodies of KIP-495 (`/admin/loggers` of Kafka Connect).

Only a program on this machine may change them: not another machine, even through a proxy on this one, and not a page in
this machine's browser.
"""

from __future__ import annotations

import ipaddress

from aiohttp import web

from broker import logging as log_levels
from broker.http.bodies import BodyError, read_json

LOGGERS = "/admin/loggers"
LARGEST_BODY_BYTES = 4096
FROM_ELSEWHERE = ("Origin", "Forwarded", "X-Forwarded-For")
"""Headers of a page in a browser, and of a proxy on this machine that others come through."""


def routes() -> list[web.RouteDef]:
    return [
        web.get(LOGGERS, _list),
        web.get(f"{LOGGERS}/{{name}}", _get),
        web.put(f"{LOGGERS}/{{name}}", _put),
    ]


async def _list(_request: web.Request) -> web.Response:
    return web.json_response({name: {"level": level} for name, level in log_levels.levels().items()})


async def _get(request: web.Request) -> web.Response:
    name, levels = request.match_info["name"], log_levels.levels()
    if name not in levels:
        return _unknown(name)
    return web.json_response({"level": levels[name]})


async def _put(request: web.Request) -> web.Response:
    """Set a level; the answer has the names of all loggers that have another one now."""
    if not _is_local(request):
        return _error(
            403, "Log levels may be changed from this machine only, and not by a page in a browser or a proxy"
        )
    name, before = request.match_info["name"], log_levels.levels()
    if name not in before:
        return _unknown(name)
    try:
        body = await read_json(request, LARGEST_BODY_BYTES)
    except BodyError as error:
        return _error(error.status, f'The body must be JSON such as {{"level": "DEBUG"}}: {error}')
    level = body.get("level") if isinstance(body, dict) else None
    if not isinstance(level, str) or level.upper() not in log_levels.LEVELS:
        return _error(400, f"level = {level!r}: expected one of {', '.join(log_levels.LEVELS)}")
    log_levels.set_level(name, level.upper())
    after = log_levels.levels()
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
