"""Requests that a client repeats, such as heartbeats: the same bytes as before but for the correlation id.

A connection keeps its last one, decoded, if its API repeats. Most are answered with the same response too, which is
then not written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from broker.network.request import Request

AFTER_CORRELATION_ID = 8
"""The position after the correlation id, where a request goes on."""

LONGEST_REPEATED_BYTES = 1024
"""Larger requests are not kept for comparison with the next, and larger answers not for another: each connection keeps
one."""

CORRELATION_ID_AT = 4
"""Position of the correlation id in the frame of an answer, after the size."""


class Repeated(NamedTuple):
    """A request and, once it was repeated, its last response, which must not be changed any more.

    Attributes:
        size: that of its frame.
        key_and_version: the first four bytes.
        rest: what comes after the correlation id.
        route: the `Route` of its API.
        answered: the last response and its frame, or nothing.
    """

    size: int
    key_and_version: int
    rest: bytes
    route: Any
    ctx: Request
    request: Any
    answered: list[tuple[Any, bytes]]
