"""An answer that is sent as it is made, to a browser that takes it. What cannot be finished is broken off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog
from aiohttp import web

from broker.console.filters import FilterError
from broker.testkit.control.budget import SpentError
from protocol.errors import KafkaError

logger = structlog.get_logger(__name__)

MOST_BYTES = 64 << 20
WRITE_S = 30.0
"""How long a browser may take nothing of what is sent."""


class UnfinishedError(Exception):
    """The answer cannot be finished; the text says why."""


class Sent:
    """`answer` is what aiohttp is given."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.answer = web.StreamResponse(headers={**headers, "Cache-Control": "no-store"})
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether as many bytes were sent as may be."""
        return self._bytes >= MOST_BYTES

    async def write(self, data: bytes) -> None:
        """Raises ConnectionResetError, TimeoutError."""
        self._bytes += len(data)
        async with asyncio.timeout(WRITE_S):
            await self.answer.write(data)


@contextmanager
def broken_off(request: web.Request, what: str, topic: str) -> Iterator[None]:
    """Break the connection off at an error: a page about it would be taken for a part of what was sent before."""
    try:
        yield
    except (UnfinishedError, FilterError, KafkaError, SpentError, OSError, TimeoutError) as error:
        logger.info(f"{what} was broken off", topic=topic, reason=str(error) or type(error).__name__)
    except Exception:
        logger.exception("unexpected error in the console", path=request.path)
    else:
        return
    if request.transport is not None:
        request.transport.abort()
