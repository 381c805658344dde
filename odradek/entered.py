"""What is started by `with` or `async with`, and closed at the end."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from types import TracebackType
from typing import Self


class Entered:
    """A start that fails, or is cancelled, leaves nothing behind."""

    @abstractmethod
    def start(self) -> Self: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread goes on, and nobody would ever stop what it starts.
            await asyncio.to_thread(self.close)
            await asyncio.gather(starting, return_exceptions=True)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)
