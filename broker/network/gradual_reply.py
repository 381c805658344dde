"""A reply too large for memory: what is still in files is read as the client takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack

from protocol.primitives import Buffer, UnreadBytes

PIECE = 1024 * 1024
"""Bytes read and handed to the transport at a time: of all connections one piece in a turn of the loop."""


class GradualReply:
    """Sends the parts of a reply, one after the other, as `pause` and `resume` tell of the transport's room.

    Replies that share a `turn` send one piece after the other, so that many of them do not keep the loop.

    Attributes:
        work: ends once the transport has all of it; raises KafkaError if a file cannot be read.
    """

    def __init__(self, parts: Sequence[Buffer | UnreadBytes], transport: asyncio.Transport, turn: asyncio.Lock) -> None:
        self._transport = transport
        self._turn = turn
        self._room = asyncio.Event()
        self._room.set()
        self.work = asyncio.ensure_future(self._send(parts))
        self.pause = self._room.clear
        self.resume = self._room.set

    async def _send(self, parts: Sequence[Buffer | UnreadBytes]) -> None:
        with ExitStack() as held:
            for part in parts:
                if isinstance(part, UnreadBytes):
                    held.callback(part.hold())
            ready: list[Buffer] = []
            for part in parts:
                if not isinstance(part, UnreadBytes):
                    ready.append(part)
                    continue
                for at in range(0, len(part), PIECE):
                    await self._send_piece(ready, part, at, min(PIECE, len(part) - at))
                    ready = []
                    await self._room.wait()
            self._transport.writelines(ready)

    async def _send_piece(self, before: Sequence[Buffer], part: UnreadBytes, at: int, size: int) -> None:
        async with self._turn:
            piece = part.try_read(at, size)
            if piece is not None:
                self._transport.writelines([*before, piece])
                await asyncio.sleep(0)  # the turn of connections with small replies
                return
        # a read that began goes on in its thread, and holds its file, even if this one is given up
        piece = await asyncio.shield(part.read(at, size))
        self._transport.writelines([*before, piece])
