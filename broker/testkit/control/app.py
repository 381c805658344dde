"""The HTTP side of the control interface: the table of endpoints, their OpenAPI document, and the app that serves them.

Each subject has a file with its endpoints. Import this one late and off the loop: aiohttp takes a while to load.
"""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog
from aiohttp import web

from broker.http.bodies import BodyError, read_json
from broker.http.hosts import KnownHosts
from broker.node import Node
from broker.process import own_version
from broker.testkit.control import (
    broker,
    faults,
    group_kinds,
    group_records,
    groups,
    histories,
    record_reads,
    record_writes,
    registry,
    remote_storage,
    report,
    snapshots,
    topics,
    transactions,
)
from broker.testkit.control.budget import to_the_end
from broker.testkit.control.endpoint import ControlError, Endpoint, Kind, Parameter
from broker.testkit.control.faults import faults_of
from protocol.errors import KafkaError

ENDPOINTS: tuple[Endpoint, ...] = (
    *broker.ENDPOINTS,
    *faults.ENDPOINTS,
    *groups.ENDPOINTS,
    *group_records.ENDPOINTS,
    *group_kinds.ENDPOINTS,
    *transactions.ENDPOINTS,
    *report.ENDPOINTS,
    *topics.ENDPOINTS,
    *record_writes.ENDPOINTS,
    *record_reads.ENDPOINTS,
    *registry.ENDPOINTS,
    *histories.ENDPOINTS,
    *snapshots.ENDPOINTS,
    *remote_storage.ENDPOINTS,
)
"""All that there is: requests are checked against it, and the OpenAPI document is made of it."""

VERSION = "3.1.0"


def document(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    """The document as JSON values; `version` is that of Odradek."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(f"/control{endpoint.path}", {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": VERSION,
        "info": {"title": "Odradek's control interface", "version": version},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    in_path = [one for one in endpoint.parameters if f"{{{one.name}}}" in endpoint.path]
    others = [one for one in endpoint.parameters if one not in in_path]
    has_body = endpoint.method in ("POST", "PUT")
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "parameters": [_parameter(one, "path") for one in in_path],
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {}}},
            "4XX": {"description": "The error: `error` is a sentence, `parameter` the name of what is wrong."},
        },
    }
    if has_body and others:
        schema = {
            "type": "object",
            "properties": {one.name: _schema(one) for one in others},
            "required": [one.name for one in others if one.required],
            "additionalProperties": False,
        }
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    elif not has_body:
        operation["parameters"] += [_parameter(one, "query") for one in others]
    return operation


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    schema = _schema(parameter)
    return {
        "name": parameter.name,
        "in": place,
        "description": schema.pop("description"),
        "required": parameter.required or place == "path",
        "schema": schema,
    }


def _schema(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _type(parameter.kind), "description": parameter.doc}
    if parameter.kind is Kind.ARRAY:
        schema["items"] = {}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.least is not None:
        schema["minimum"] = parameter.least
    return schema


def _type(kind: Kind) -> str | list[str]:
    return ["string", "integer"] if kind is Kind.STRING_OR_INTEGER else kind.value


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
    described = document(endpoints, own_version())
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
