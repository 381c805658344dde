"""The HTTP side of the control interface. Import it late and off the loop: aiohttp takes a while to load."""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog
from aiohttp import web

from broker.control import openapi
from broker.control.budget import to_the_end
from broker.control.endpoint import ControlError, Endpoint
from broker.control.endpoints import ENDPOINTS
from broker.control.faults import faults_of
from broker.http.bodies import BodyError, read_json
from broker.http.hosts import KnownHosts
from broker.node import Node
from broker.process import own_version
from protocol.errors import KafkaError

logger = structlog.get_logger(__name__)

LARGEST_BODY_BYTES = 64 << 20
"""Records are produced through it too."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(node: Node, token: str | None, endpoints: Iterable[Endpoint] = ENDPOINTS) -> web.Application:
    """The app under `/control/`. With a token, each request must have it: `Authorization: Bearer TOKEN`."""
    node.faults = node.faults or faults_of(node)
    hosts = KnownHosts(node.local.config, node.bound.hosts)
    app = web.Application(middlewares=[_guard(token, hosts)])
    endpoints = tuple(endpoints)
    for endpoint in endpoints:
        path = endpoint.path.replace("}", ":[^/]*}")  # also an empty name, and one with braces
        app.router.add_route(endpoint.method, f"/control{path}", _handler(node, endpoint))
    described = openapi.document(endpoints, own_version())
    app.router.add_get("/control/openapi.json", _always(described))
    return app


def _guard(token: str | None, hosts: KnownHosts) -> Any:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if token is not None:
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(errors="surrogateescape"), token.encode()):
                return _error(ControlError("expected the header Authorization: Bearer TOKEN", status=401))
        elif "Origin" in request.headers:
            # A page in the user's browser can reach loopback too; it always says where it comes from.
            return _error(ControlError("not for web pages: set odradek.control.token", status=403))
        elif problem := hosts.problem(request):
            return _error(ControlError(f"{problem}, or set odradek.control.token", status=421))
        try:
            return await handler(request)
        except web.HTTPException as error:
            text = f"{request.method} {request.path}: {error.reason}; GET /control/openapi.json has all that there is"
            return _error(ControlError(text, status=error.status))

    return guard


def _handler(node: Node, endpoint: Endpoint) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            values = endpoint.check(await _body(request), {**request.match_info, **request.query})
            answer = endpoint.answer(node, values)
            if inspect.isawaitable(answer):
                # What only looks ends with its client, what changes something does not.
                answer = await (answer if endpoint.only_looks else to_the_end(answer))
        except BodyError as error:
            return _error(ControlError(str(error), status=error.status))
        except ControlError as error:
            return _error(error)
        except KafkaError as error:
            return _error(ControlError(f"{error.code.name.upper()}: {error}", status=409))
        except OSError as error:
            return _error(ControlError(str(error), status=500))
        except Exception as error:
            logger.exception("unexpected error in the control interface", path=request.path)
            return _error(ControlError(f"unexpected error, see the broker's log: {error!r}", status=500))
        if isinstance(answer, bytes):
            return web.Response(body=answer, content_type="application/json")
        return web.json_response(answer if answer is not None else {})

    return handle


async def _body(request: web.Request) -> dict[str, Any]:
    body = await read_json(request, LARGEST_BODY_BYTES)
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise ControlError("the body is no JSON object")
    return body


def _always(value: Any) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.json_response(value)

    return handle


def _error(error: ControlError) -> web.Response:
    return web.json_response({"error": str(error), "parameter": error.parameter}, status=error.status)
