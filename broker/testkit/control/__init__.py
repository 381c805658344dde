"""The port of the control interface: taken before the broker says that it serves, answered from as soon as it does."""

from __future__ import annotations

import asyncio
import importlib
import socket
from typing import TYPE_CHECKING

import structlog

from broker.network.server import ACCEPTED_AT_ONCE, ListenError, lengthen_backlog
from broker.node import Node
from broker.testkit.control.history_recorder import histories_of
from broker.testkit.journal import begin_journal

if TYPE_CHECKING:
    from broker.http.connections import HttpPort


logger = structlog.get_logger(__name__)

BACKLOG = 128


class ControlServer:
    """Serves `/control/` on the broker's loop.

    The port is open from the start, and the kernel keeps what arrives until `begin` has loaded the HTTP library in a
    thread: so a broker starts no later for it.
    """

    def __init__(self, host: str, port: int, token: str | None) -> None:
        """Take the port, 0 for a free one. Raises ListenError."""
        self._token = token
        self._loading: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._opened: HttpPort | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ListenError(f"odradek.control = {host}:{port} cannot be opened: {error.strerror or error}") from error
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"

    def begin(self, node: Node) -> None:
        """Answer from now on, keep a journal, and go on with the histories of an earlier process."""
        begin_journal(node)
        histories_of(node).resume()
        self._loading = asyncio.ensure_future(self._serve(node))

    async def _serve(self, node: Node) -> None:
        await asyncio.to_thread(importlib.import_module, "broker.testkit.control.app")
        from broker.http.connections import HttpPort
        from broker.testkit.control.app import make_app

        app = make_app(node, self._token)
        self._opened = HttpPort(app, "odradek.control", node.local.config, node.clock.machine)
        await self._opened.begin()
        self._server = await asyncio.get_running_loop().create_server(
            self._opened, sock=self._socket, backlog=ACCEPTED_AT_ONCE
        )
        lengthen_backlog(self._server, BACKLOG)
        logger.info("control interface listening", url=f"{self.url}/control/")

    async def stop(self) -> None:
        """Finish the responses in flight, and close the port."""
        if self._loading is not None:
            await asyncio.gather(self._loading, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        if self._opened is not None:
            await self._opened.stop()
        self._socket.close()
