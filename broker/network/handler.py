"""What dispatch is handed for each API: the function that answers its requests, and what few APIs need besides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from protocol.api.row import Api
from protocol.errors import KafkaError

Handle: TypeAlias = Callable[[Any, Any], Any]
"""`(ctx, request)`: returns the response or an awaitable of it, and raises KafkaError."""


@dataclass(frozen=True, slots=True)
class Handler:
    """How one API is answered.

    Attributes:
        decode: `(version, frame, position)`: reads a request, if its codec is hand-written.
        encode: `(response, version, correlation id)`: writes a response, likewise.
        prepare: turns a request into what `handle` gets, using only the request and its client.
        failed: `(ctx, request, error)`: the response of a failed request, if `protocol.api.failure` has not the same.
        too_new: the answer to a version that is not served (ApiVersions; others end the connection).
        first: what the broker that is asked checks itself, before it sends the request on to a controller.
        forwards: the handler itself sends on what a controller decides, which is not all that is asked.
    """

    handle: Handle
    decode: Callable[[int, memoryview, int], Any] | None = None
    encode: Callable[[Any, int, int], Any] | None = None
    prepare: Handle | None = None
    failed: Callable[[Any, Any, KafkaError], Any] | None = None
    too_new: Callable[[], Any] | None = None
    first: Callable[[Any], None] | None = None
    forwards: bool = False


class FindsHandlers(Protocol):
    """Finds the handler of an API, on a broker's listener or on a controller's, when it is first asked for."""

    def __call__(self, api: Api, *, of_controller: bool) -> Handler: ...
