"""Transports that stand between a connection and its socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


class Muted(asyncio.Transport):
    """Sends nothing of what is written, as if the network lost it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport

    def write(self, data: Any) -> None:
        """Lose it."""

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Lose it."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()
