"""Clients that speak the protocol by hand, one connection each, so that they cost the shared cores little."""

from __future__ import annotations

import asyncio
import struct
import time
from asyncio import Future
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from protocol.primitives import append_uvarint

T = TypeVar("T")


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def data(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def frame(api: int, version: int, *fields: bytes) -> bytes:
    """A whole request of a version without tagged fields."""
    body = struct.pack(">hhi", api, version, 0) + text("bench") + b"".join(fields)
    return data(body)


def unsigned_varint(number: int) -> bytes:
    out = bytearray()
    append_uvarint(out, number)
    return bytes(out)


def compact_data(value: bytes) -> bytes:
    return unsigned_varint(len(value) + 1) + value


def compact_text(value: str) -> bytes:
    return compact_data(value.encode())


def flexible_frame(api: int, version: int, *fields: bytes) -> bytes:
    """A whole request of a version with tagged fields (KIP-482): none in the header, the body's in `fields`."""
    return data(struct.pack(">hhi", api, version, 0) + text("bench") + b"\0" + b"".join(fields))


class Asker(asyncio.Protocol):
    """One connection; `ask` sends a whole frame and returns the body of the answer."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.on_answer: Callable[[bytes], None] = self.answered
        self._answer: Future[bytes] | None = None
        self._buffer = bytearray()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, received: bytes) -> None:
        self._buffer += received
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[8:end])
            del self._buffer[:end]
            self.on_answer(body)

    def answered(self, body: bytes) -> None:
        assert self._answer is not None
        self._answer.set_result(body)

    async def ask(self, request: bytes) -> bytes:
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await asyncio.wait_for(self._answer, 60)


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    return await asyncio.gather(*work)


async def flood(askers: Sequence[Asker], requests: Sequence[bytes], seconds: float) -> float:
    """Answers per second if each connection asks again as soon as it is answered."""
    deadline = 0.0
    answers = 0
    asking = len(askers)
    over: Future[None] = asyncio.get_running_loop().create_future()

    def asking_again(asker: Asker, request: bytes) -> Callable[[bytes], None]:
        write = asker.transport.write

        def answered(body: bytes) -> None:
            nonlocal answers, asking
            answers += 1
            if time.perf_counter() < deadline:
                write(request)
                return
            asking -= 1
            if not asking:
                over.set_result(None)

        return answered

    for asker, request in zip(askers, requests, strict=True):
        asker.on_answer = asking_again(asker, request)
    began = time.perf_counter()
    deadline = began + seconds
    for asker, request in zip(askers, requests, strict=True):
        asker.transport.write(request)
    await over
    for asker in askers:
        asker.on_answer = asker.answered
    return answers / (time.perf_counter() - began)
