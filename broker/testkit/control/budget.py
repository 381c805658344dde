"""What an answer over HTTP may cost, and the threads that make it.

Whoever may write a record decides what it costs to look at it: a few kB unpack to a hundred megabytes, hold a hundred
thousand headers, or JSON that is indented to a hundred times its size. So each answer has a budget, which is passed
through all that reads and renders for it. What does not fit is left out, and the answer says so.

Work is counted and not timed, so that an answer does not depend on how busy the machine is: a unit is a byte that is
unpacked, or what takes about as long, a nanosecond or a few.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from broker.node import Node
from odradek.schemas.codecs import scalar
from protocol.records.cut import CutLimits

T = TypeVar("T")

LANE = "answers over HTTP"
"""The workers that read and render, so that no batch of a producer waits for them."""

WORK = 256 << 20
KEPT_BYTES = 8 << 20
JSON_WORK = 20
"""For each byte of JSON that is read, and each character that is written."""

MOST = CutLimits(content=8 << 20, headers=10_000, header_content=1 << 20)
"""What the control interface gives of a record."""


class SpentError(Exception):
    """The answer has cost more than it may, or nobody waits for it any more."""


class Budget:
    """The work and the bytes that are left for an answer. One thread uses it at a time.

    Attributes:
        most: what is kept of each record.
        is_over: nobody waits for the answer any more.
        passed_over: partition, first offset and the offset behind, where not even the first record could be reached.
    """

    def __init__(self, most: CutLimits, *, work: int = WORK, kept: int = KEPT_BYTES) -> None:
        self.most = most
        self._work = self._whole = work
        self._kept = kept
        self.is_over = False
        self.passed_over: list[tuple[int, int, int]] = []

    @property
    def is_spent(self) -> bool:
        """Whether nothing more should be begun."""
        return self._work <= 0 or self._kept <= 0 or self.is_over

    @property
    def is_fresh(self) -> bool:
        """Whether hardly anything was spent: what is too much for it now would be so the next time, too."""
        return self._work > self._whole * 3 // 4

    def spend(self, work: int) -> None:
        """Note work that is about to be done.

        What was begun may cost as much again as the whole budget: then, or if the client has gone, raises SpentError.
        """
        self._work -= work
        if self.is_over or self._work < -self._whole:
            raise SpentError

    def keep(self, size: int) -> None:
        """Note bytes that stay in memory until the answer is sent."""
        self._kept -= size

    async def run(self, node: Node, work: Callable[[], T]) -> T:
        """The result of work in a thread. If the request is cancelled, as its client has gone, the work ends soon."""
        try:
            return await node.base.seams.workers.lane(LANE).call(work)
        except asyncio.CancelledError:
            self.is_over = True
            raise

    def json(self, value: Any, most: int, *, indent: int | None = None) -> tuple[str, bool]:
        """The first `most` characters of a value as JSON, and whether that is all. Raises SpentError."""
        encoder = json.JSONEncoder(ensure_ascii=False, indent=indent, default=scalar)
        parts: list[str] = []
        left = most + 1
        for part in encoder.iterencode(value):
            self.spend(JSON_WORK * min(len(part), left))
            parts.append(part[:left])
            left -= len(part)
            if left <= 0:
                break
        text = "".join(parts)
        return text[:most], len(text) <= most


_unfinished: set[asyncio.Future[Any]] = set()


async def to_the_end(work: Awaitable[T]) -> T:
    """The result of work that runs to its end, though its client may have gone: it changes something."""
    running = asyncio.ensure_future(work)
    _unfinished.add(running)
    running.add_done_callback(_unfinished.discard)
    return await asyncio.shield(running)
