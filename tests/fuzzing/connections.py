"""Targets of whole connections: what is sent to a node, frames with their sizes, before and after a login."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from structlog.testing import capture_logs

from protocol.api.messages import request_class
from protocol.api.table import API_TABLE
from tests.doubles.clock import settle
from tests.fuzzing.target import Target
from tests.unit.broker.network.test_fuzzed_bytes import CONFIG
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import batch, entity_frame, frame, produce
from tests.unit.protocol.conftest import Generator

LONGEST_WAIT_MS = 1_000
"""Long enough for an answer that is held back; what waits for longer is cut off, as by a client that goes."""
SHORT = 300
"""Bytes of a request to begin with: the longer ones are strings and arrays of more of the same."""
TOGETHER = 5


def send_to_a_node(data: bytes, listener: str) -> object:
    return asyncio.run(_send_to_a_node(data, listener))


async def _send_to_a_node(data: bytes, listener: str) -> bytes:
    """What the node answers. Whatever it is, the node meets no error that nobody expected, and serves the next client.

    Raises ConnectionResetError if it closes the connection.
    """
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    async with Rig(config=CONFIG) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        await rig.create("t")
        client = rig.connect(listener=listener)
        with capture_logs() as logs:
            client.transport.feed(data)
            await rig.clock.run(LONGEST_WAIT_MS)
        faults += (log for log in logs if "unexpected error" in str(log["event"]))
        await _serves(rig.connect())
        closed = client.transport.lost
        client.transport.reset()
        await settle()
    assert not faults, faults
    if closed:
        raise ConnectionResetError
    return bytes(client.transport.sent)


async def _serves(client: Client) -> None:
    assert (await client.ask("api_versions", 0)).error_code.name == "none"
    client.transport.reset()


def after_a_login() -> Iterator[bytes]:
    """Produce, and a short request of each API, a few in one connection."""
    yield frame("produce", 9, 1, transactional_id=None, **produce("t", {0: batch(b"value")}))
    made = [entity_frame(Generator(api.name).entity(request_class(api.key, api.highest)), 1) for api in API_TABLE]
    short = [request for request in made if len(request) < SHORT]
    for start in range(0, len(short), TOGETHER):
        yield b"".join(short[start : start + TOGETHER])


def before_a_login() -> Sequence[bytes]:
    """Logins of each mechanism, and a request that should have come after one."""
    versions = frame("api_versions", 0, 1)
    return [
        versions
        + frame("sasl_handshake", 1, 2, mechanism="PLAIN")
        + frame("sasl_authenticate", 2, 3, auth_bytes=b"\0alice\0geheim")
        + versions,
        frame("sasl_handshake", 0, 1, mechanism="PLAIN") + b"\0\0\0\x0e\0alice\0geheim" + versions,
        frame("sasl_handshake", 1, 1, mechanism="SCRAM-SHA-256")
        + frame("sasl_authenticate", 0, 2, auth_bytes=b"n,,n=alice,r=abc"),
        frame("sasl_handshake", 1, 1, mechanism="OAUTHBEARER")
        + frame("sasl_authenticate", 1, 2, auth_bytes=b"n,,\x01auth=Bearer e30.e30.\x01\x01"),
        frame("metadata", 1, 1, topics=None),
    ]


CONNECTIONS = (
    Target(
        "frames_before_a_login",
        partial(send_to_a_node, listener="SASL"),
        (ConnectionResetError,),
        before_a_login,
    ),
    Target(
        "frames_after_a_login",
        partial(send_to_a_node, listener="PLAINTEXT"),
        (ConnectionResetError,),
        after_a_login,
    ),
)
