"""The registry's listeners: HTTP and HTTPS on the broker's loop.

The ports are open before the broker says that it serves; what arrives earlier waits until a thread has loaded the HTTP
library. Import it where there is to be a registry, and nowhere else.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import socket
import ssl
from typing import TYPE_CHECKING, NamedTuple

import structlog

from broker.config.listeners import Listener
from broker.network.server import ACCEPTED_AT_ONCE, ListenError, lengthen_backlog
from broker.registry.users import LISTENER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.config.broker_config import BrokerConfig
    from broker.http.connections import HttpPort
    from broker.node import Node
    from broker.registry.registry import Registry

logger = structlog.get_logger(__name__)

SETTING = "schema.registry.listeners"
BACKLOG = 128
_ADDRESS = re.compile(r"(https?)://(?:\[([0-9a-fA-F:.]+)\]|([0-9a-zA-Z._-]*)):([0-9]{1,5})/?")


class Address(NamedTuple):
    scheme: str
    host: str
    port: int

    def url(self, port: int) -> str:
        host = self.host or "0.0.0.0"
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def addresses(config: BrokerConfig) -> list[Address]:
    """Raises ListenError for what is no address."""
    found = []
    for text in config.list_(SETTING):
        match = _ADDRESS.fullmatch(text)
        if match is None or int(match[4]) > 65535:
            raise ListenError(f"{SETTING} = {text!r}: expected http://HOST:PORT or https://HOST:PORT")
        found.append(Address(match[1], match[2] or match[3], int(match[4])))
    return found


class RegistryServer:
    """Takes the ports when it is made, and answers from `begin` on."""

    def __init__(self, listeners: Sequence[Address]) -> None:
        """Raises ListenError."""
        self._opened: list[HttpPort] = []
        self._servers: list[asyncio.Server] = []
        self._loading: asyncio.Task[None] | None = None
        self._sockets: list[tuple[Address, socket.socket]] = []
        try:
            for address in listeners:
                self._sockets.append((address, _bound(address)))
        except ListenError:
            self._close()
            raise

    @property
    def urls(self) -> list[str]:
        """The addresses, with the ports that were chosen if 0 was given."""
        return [address.url(bound.getsockname()[1]) for address, bound in self._sockets]

    async def begin(self, node: Node, registry: Registry) -> None:
        """Answer from now on. Raises SecurityError if keys cannot be used."""
        context = await self._tls(node)
        self._loading = asyncio.ensure_future(self._serve(node, registry, context))
        self._loading.add_done_callback(_log_failure)

    async def _tls(self, node: Node) -> ssl.SSLContext | None:
        """What `https` is served with. Its keys follow their files, as those of other listeners."""
        secure = [address for address, _ in self._sockets if address.scheme == "https"]
        if not secure:
            return None
        security = node.local.security
        listener = Listener(LISTENER, "SSL", secure[0].host, secure[0].port)
        await security.open([listener], [*node.bound.hosts, socket.gethostname()])
        context = security.listeners[LISTENER].prepared.tls
        assert context is not None

        def use_newest(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = security.listeners[LISTENER].prepared.tls or context

        context.sni_callback = use_newest
        return context

    async def _serve(self, node: Node, registry: Registry, context: ssl.SSLContext | None) -> None:
        # The library takes a tenth of a second to load.
        await asyncio.to_thread(importlib.import_module, "broker.registry.app")
        from broker.http.connections import HttpPort
        from broker.registry.app import make_app

        hosts = [address.host for address, _ in self._sockets]
        for address, bound in self._sockets:
            port = HttpPort(make_app(node, registry, hosts), SETTING, node.local.config, node.clock.machine)
            await port.begin()
            self._opened.append(port)
            tls = context if address.scheme == "https" else None
            server = await asyncio.get_running_loop().create_server(port, sock=bound, backlog=ACCEPTED_AT_ONCE, ssl=tls)
            lengthen_backlog(server, BACKLOG)
            self._servers.append(server)
        logger.info("schema registry listening", urls=self.urls)

    async def stop(self) -> None:
        """Finish the responses in flight, and close the ports."""
        if self._loading is not None:
            await asyncio.gather(self._loading, return_exceptions=True)
        for server in self._servers:
            server.close()
        for port in self._opened:
            await port.stop()
        self._close()

    def _close(self) -> None:
        for _, bound in self._sockets:
            bound.close()


def _log_failure(loading: asyncio.Task[None]) -> None:
    if not loading.cancelled() and (error := loading.exception()) is not None:
        logger.error("the schema registry does not listen", exc_info=error)


def _bound(address: Address) -> socket.socket:
    """Raises ListenError."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        url = address.url(address.port)
        raise ListenError(f"{SETTING} = {url} cannot be opened: {error.strerror or error}") from error
