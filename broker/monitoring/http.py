"""The broker's second port: metrics for Prometheus, and the two health checks of orchestrators."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from broker.monitoring.metrics import Metrics

if TYPE_CHECKING:
    from aiohttp.web import AppRunner

logger = structlog.get_logger(__name__)

FINISH_S = 1.0
"""How long a stopping server waits for responses in flight."""


class HttpServer:
    """Serves `/metrics`, `/healthz` and `/v1/status/ready` on the broker's loop.

    `is_ready` returns None while the node serves clients, else the reason why it does not.
    """

    def __init__(self, host: str, port: int, metrics: Metrics, is_ready: Callable[[], str | None]) -> None:
        self._host = host
        self._port = port
        self._metrics = metrics
        self._is_ready = is_ready
        self._runner: AppRunner | None = None

    async def start(self) -> int:
        """Bind and serve; return the port, chosen by the system if 0 was given. Raises OSError."""
        # The libraries take a quarter of a second to load, so a thread does it while the loop serves Kafka's clients.
        await asyncio.to_thread(importlib.import_module, "broker.monitoring.http_app")
        from aiohttp.web import AppRunner, TCPSite

        from broker.monitoring.http_app import make_app

        app = make_app(self._metrics, self._is_ready)
        self._runner = AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=FINISH_S)
        await self._runner.setup()
        try:
            await TCPSite(self._runner, self._host, self._port).start()
        except OSError:
            await self.stop()
            raise
        port: int = self._runner.addresses[0][1]
        logger.info("http server listening", host=self._host, port=port)
        return port

    async def stop(self) -> None:
        """Stop accepting, finish the responses in flight, close every connection. Harmless if not started."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()
