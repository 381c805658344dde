"""Log lines that a client can cause: so many a minute for one address, whatever it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog

logger = structlog.get_logger(__name__)

K = TypeVar("K")
V = TypeVar("V")

PERIOD_MS = 60_000
LINES = 10
"""Lines a minute about the clients of one address on one listener."""
MOST_REMEMBERED = 1_000
"""Addresses of which lines were written lately; with more, only the newest count."""


class ClientLines:
    """Warnings about clients. A scanner, or a client that retries for ever, fills no log."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._once_ms: dict[tuple[str, str, str], float] = {}
        self._written: dict[tuple[str, str], tuple[float, int]] = {}

    def warn(self, event: str, listener: str, client: str, **more: object) -> None:
        """Write a line, unless there were `LINES` about this client within a minute."""
        key, now_ms = (listener, client), self._monotonic_ms()
        since_ms, count = self._written.pop(key, (now_ms, 0))
        if now_ms - since_ms >= PERIOD_MS:
            since_ms, count = now_ms, 0
        _remember(self._written, key, (since_ms, count + 1))
        if count >= LINES:
            return
        if count == LINES - 1:
            more["further_lines"] = "left out for a minute"
        logger.warning(event, listener=listener, client=client, **more)

    def warn_once(self, event: str, listener: str, client: str, **more: object) -> None:
        """Write a line, unless there was one of the same event about this client within a minute."""
        key, now_ms = (event, listener, client), self._monotonic_ms()
        if now_ms - self._once_ms.get(key, -PERIOD_MS) < PERIOD_MS:
            return
        self._once_ms.pop(key, None)
        _remember(self._once_ms, key, now_ms)
        self.warn(event, listener, client, **more)


def _remember(table: dict[K, V], key: K, value: V) -> None:
    table[key] = value
    if len(table) > MOST_REMEMBERED:
        del table[next(iter(table))]
