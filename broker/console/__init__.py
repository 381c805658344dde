"""The console: pages about the node for a browser, at `/` of the HTTP port.

A page is a function that looks at a bounded piece of the node, on the loop, and gives plain values; a thread makes
HTML of them with a template. Nothing of it is loaded before somebody asks for a page, but `history`, which notes the
rates and lags that the charts show.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

from broker.background import Periodic
from broker.console.history import LAG_MS, SAMPLE_MS, History
from broker.node import Node

if TYPE_CHECKING:
    from aiohttp.web import Request, StreamResponse

    from broker.console.app import App


class Console:
    """`answer` answers a request for any path that the HTTP port has nothing else for."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._history = History(node)
        self._periodic = Periodic(node.clock.machine)
        self._app: App | None = None

    def begin(self) -> None:
        """Note rates and lags from now on."""
        self._periodic.every(SAMPLE_MS, "rates for the console", self._history.sample, first_ms=0)
        self._periodic.every(LAG_MS, "lags for the console", self._history.sample_lags)

    async def answer(self, request: Request) -> StreamResponse:
        if self._app is None:
            # Templates and their library take a tenth of a second to load.
            await asyncio.to_thread(importlib.import_module, "broker.console.app")
            from broker.console.app import App

            self._app = self._app or App(self._node, self._history)
        return await self._app.answer(request)

    async def stop(self) -> None:
        await self._periodic.stop()
