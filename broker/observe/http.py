"""The broker's second port: metrics for Prometheus, the two health checks of orchestrators, levels of loggers."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import structlog

from broker.config.broker_config import BrokerConfig
from broker.http.hosts import KnownHosts
from broker.network.server import ACCEPTED_AT_ONCE, ListenError, lengthen_backlog
from broker.observe.metrics import Metrics

if TYPE_CHECKING:
    from broker.http.connections import HttpPort
    from broker.observe.http_app import Pages
    from timing.clock import Clock

logger = structlog.get_logger(__name__)

PORT_SETTING = "odradek.http.port"
BACKLOG = 128


class HttpServer:
    """Serves `/metrics`, `/healthz`, `/v1/status/ready` and `/admin/loggers` on the broker's loop.

    `is_ready` returns None while the node serves clients, else the reason why it does not; `problems` what is wrong
    although it serves. `hosts` are the node's own names, `clock` is the machine's.

    Attributes:
        port: once it is bound, the one that was chosen if 0 was given.
    """

    def __init__(
        self,
        config: BrokerConfig,
        metrics: Metrics,
        is_ready: Callable[[], str | None],
        clock: Clock,
        problems: Callable[[], Sequence[str]] = tuple,
        hosts: Iterable[str] = (),
    ) -> None:
        self._config = config
        self._host = config.string("odradek.http.host")
        self.port = config.integer(PORT_SETTING)
        self._hosts = KnownHosts(config, hosts)
        self._clock = clock
        self._metrics = metrics
        self._is_ready = is_ready
        self._problems = problems
        self._server: asyncio.Server | None = None
        self._or_any = False
        self._opened: HttpPort | None = None
        self._pages: Pages | None = None
        self._waiting: list[socket.socket] = []
        self._loading: asyncio.Future[None] | None = None

    async def bind(self, *, or_any: bool = False) -> int:
        """Take the port, without answering yet; return it, chosen by the system if 0 was given.

        With `or_any`, as for the default port, another one is taken if it is in use. Raises ListenError.
        """
        self._or_any = or_any
        try:
            self._server = await self._listen(self.port)
        except OSError as error:
            if not or_any:
                raise self._cannot_open(error) from error
            await self._take_another()
        else:
            self.port = _port_of(self._server)
        return self.port

    async def _take_another(self) -> None:
        self._server = await self._listen(0)
        wanted, self.port = self.port, _port_of(self._server)
        logger.warning(
            "http port in use, another one taken",
            wanted=wanted,
            port=self.port,
            advice=f"set {PORT_SETTING} for a port that stays the same, -1 for none",
        )

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            self._accept, self._host, port, backlog=ACCEPTED_AT_ONCE, start_serving=False
        )

    async def serve(self, pages: Pages | None = None) -> None:
        """Listen from now on; paths that are not ours are answered by `pages`. Raises ListenError if another does.

        What answers is loaded when the first connection comes: a node that nobody scrapes or looks at does without.
        """
        self._pages = pages
        try:
            self._listen_for_first()
        except OSError as error:
            if not self._or_any:
                raise self._cannot_open(error) from error
            self._stop_waiting()
            assert self._server is not None
            self._server.close()
            await self._take_another()
            self._listen_for_first()
        logger.info("http server listening", host=self._host, port=self.port)

    def _listen_for_first(self) -> None:
        """Let connections wait in the kernel, the first of which begins the work. Raises OSError."""
        assert self._server is not None
        for bound in self._server.sockets:
            waiting = socket.socket(fileno=os.dup(bound.fileno()))
            self._waiting.append(waiting)
            waiting.listen(BACKLOG)  # only here one hears that another process listens there
            asyncio.get_running_loop().add_reader(waiting, self._first_came)

    def _first_came(self) -> None:
        self._stop_waiting()
        self._loading = asyncio.ensure_future(self._load())

    def _stop_waiting(self) -> None:
        for waiting in self._waiting:
            asyncio.get_running_loop().remove_reader(waiting)
            waiting.close()
        self._waiting.clear()

    async def _load(self) -> None:
        assert self._server is not None
        # The libraries take a quarter of a second to load, so a thread does it while the loop serves Kafka's clients.
        await asyncio.to_thread(importlib.import_module, "broker.observe.http_app")
        from broker.http.connections import HttpPort
        from broker.observe.http_app import make_app

        app = make_app(self._metrics, self._is_ready, self._problems, self._hosts, self._pages)
        self._opened = HttpPort(app, PORT_SETTING, self._config, self._clock)
        await self._opened.begin()
        try:
            await self._server.start_serving()
            lengthen_backlog(self._server, BACKLOG)
        except OSError as error:
            logger.error("http port answers nobody", error=str(self._cannot_open(error)))

    def _cannot_open(self, error: OSError) -> ListenError:
        return ListenError(f"{PORT_SETTING} = {self.port} cannot be opened: {error.strerror or error}")

    def _accept(self) -> asyncio.Protocol:
        assert self._opened is not None
        return self._opened()

    async def stop(self) -> None:
        """Stop accepting, finish the responses in flight, close every connection. Harmless if not started."""
        self._stop_waiting()
        if self._loading is not None:
            await self._loading
        if self._server is not None:
            self._server.close()
        if self._opened is not None:
            opened, self._opened = self._opened, None
            await opened.stop()


def _port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port
