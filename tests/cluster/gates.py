"""The network between brokers, which a test may cut: what they send each other goes through a gate."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

CHUNK = 1 << 16


class Gate:
    """Passes connections on to a port of this machine. While it is cut, nothing passes, and nothing is closed.

    A context manager, with a thread and a loop of its own.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._passes = asyncio.Event()
        self._passes.set()
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Let nothing pass from now on."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def heal(self) -> None:
        """Let everything pass again, what was sent meanwhile too."""
        self._loop.call_soon_threadsafe(self._passes.set)

    async def _open(self) -> int:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._server.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            await self._passes.wait()
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        ways = [
            asyncio.ensure_future(self._pass_on(reader, other_writer)),
            asyncio.ensure_future(self._pass_on(other_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            writer.close()
            other_writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Return once either end has closed."""
        try:
            while data := await reader.read(CHUNK):
                await self._passes.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return
