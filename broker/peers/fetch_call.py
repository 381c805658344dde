"""A Fetch that a node sends to another broker: as a follower, or to read a log that others lead."""

from __future__ import annotations

from broker.peers.call import Call
from protocol.produce_fetch import replica_fetch
from protocol.produce_fetch.fetch_request import FetchRequest
from protocol.produce_fetch.fetch_response import FetchResponse

FETCH = 1
"""The API's key."""


def fetch_call(request: FetchRequest) -> Call[FetchResponse]:
    """The call of a Fetch that names topics by id."""
    return Call(
        FETCH,
        replica_fetch.LOWEST,
        replica_fetch.HIGHEST,
        lambda _: True,
        lambda out, _: replica_fetch.encode_request(out, request),
        lambda frame, position, _: replica_fetch.decode_response(frame, position),
    )
