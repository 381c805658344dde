"""The registry over HTTP: bodies and media types, users, and answers as JSON.

Import it late and off the loop, as it loads aiohttp.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from broker.http.bodies import BodyError, read_json
from broker.http.hosts import KnownHosts
from broker.network.request import UnknownClientError
from broker.registry.calls import Answer, Asked
from broker.registry.errors import Code, RegistryError
from broker.registry.faults import MEDIA_TYPE, struck
from broker.registry.reads import RawText
from broker.registry.records import compact
from broker.registry.registry import Registry, failed
from broker.registry.users import LISTENER, Users

if TYPE_CHECKING:
    from broker.network.request import Principal
    from broker.node import Node

MEDIA_TYPES = (MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/json", "application/octet-stream")
LARGEST_BODY_BYTES = 2 << 20
"""More than the largest schema takes, as JSON in JSON."""

QUICK = 20
"""Longer lists are written as JSON in a thread."""


class App:
    def __init__(self, node: Node, registry: Registry, hosts: Iterable[str]) -> None:
        self._node = node
        self._registry = registry
        self._users = Users(node)
        self._hosts = KnownHosts(node.local.config, [*node.bound.hosts, *hosts])

    async def answer(self, request: web.Request) -> web.StreamResponse:
        faults = self._node.faults
        if faults is not None and any(faults.registry):  # of a test
            return await struck(request, faults, self._ordinary)
        return await self._ordinary(request)

    async def _ordinary(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except BodyError as error:
            answer = Answer(error.status, {"error_code": error.status, "message": str(error)})
        except RegistryError as error:
            answer = failed(error)
        return await self._written(request, answer)

    async def _answer(self, request: web.Request) -> Answer:
        if not self._users.required and (problem := self._hosts.problem(request)):
            return Answer(421, {"error_code": 421, "message": problem})
        address = request.remote or ""
        rights = await self._users.rights(request.headers.get("Authorization"), address, self._by_certificate(request))
        body = await _body(request) if request.method in ("POST", "PUT") else None
        return await self._registry.answer(Asked(request.method, request.raw_path, body), rights)

    def _by_certificate(self, request: web.Request) -> Principal | None:
        """Who the client's certificate names; None if it showed none."""
        connection = request.get_extra_info("ssl_object")
        certificate = None if connection is None else connection.getpeercert(binary_form=True)
        if certificate is None:
            return None
        try:
            return self._node.local.security.listeners[LISTENER].principal_of(certificate)
        except UnknownClientError as error:
            raise RegistryError(Code.UNAUTHORIZED, str(error)) from error

    async def _written(self, request: web.Request, answer: Answer) -> web.Response:
        value, kind = answer.value, _accepted(request)
        if isinstance(value, RawText):
            body = value.encode(errors="surrogatepass")
        elif isinstance(value, list) and len(value) > QUICK:
            body = await self._registry.schemas.run(partial(_bytes, value))
        else:
            body = _bytes(value)
        headers = {"Content-Type": kind}
        if answer.status == 401:
            headers["WWW-Authenticate"] = 'Basic realm="odradek", charset="UTF-8"'
        return web.Response(body=body, status=answer.status, headers=headers)


async def _body(request: web.Request) -> Any:
    kind = request.headers.get("Content-Type", MEDIA_TYPE).partition(";")[0].strip().lower()
    if kind not in MEDIA_TYPES:
        raise RegistryError(
            Code.UNSUPPORTED_MEDIA_TYPE, f"HTTP 415 Unsupported Media Type: expected {MEDIA_TYPE} or application/json"
        )
    return await read_json(request, LARGEST_BODY_BYTES)


def _accepted(request: web.Request) -> str:
    """The media type of the answer: Confluent's, unless the client names only plain JSON."""
    accepted = request.headers.get("Accept", "")
    return "application/json" if "application/json" in accepted and "schemaregistry" not in accepted else MEDIA_TYPE


def _bytes(value: Any) -> bytes:
    return compact(value).encode(errors="surrogatepass")


def make_app(node: Node, registry: Registry, hosts: Iterable[str]) -> web.Application:
    """`hosts` are names by which the registry is reached, besides those of the node."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", App(node, registry, hosts).answer)
    return app
