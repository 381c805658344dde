"""The user of the console as a client of the node: what a form asks is a request of Kafka's, and goes the way of all.

It is dispatched with the user's principal and address. So the guard, the quotas, the metrics, the handler's validation
and the forwarding to controllers are those of every client. What another broker must do is sent there as brokers ask
each other, once this node has found that the user may ask for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from broker.console.ask import Ask
from broker.network.inner_client import InnerClient
from broker.network.request import CloseConnectionError
from broker.peers.call import entity_call
from broker.peers.leaders import ask as ask_peer
from broker.testkit.control.endpoint import ControlError
from protocol.api.table import API_BY_KEY
from protocol.errors import KafkaError, UnknownServerError, type_by_code
from protocol.schema import Entity
from protocol.topic_partition import PartitionKey

CLIENT_ID = "odradek-console"
TIMEOUT_MS = 60_000.0
REFUSED, IN_CONFLICT = 403, 409


async def ask_broker(ask: Ask, request: Entity) -> Any:
    """The node's answer to a request of its user. Raises ControlError if there is none."""
    node = ask.node
    if not node.bound.advertised:
        raise ControlError("this node is no broker: use the console of a broker", status=IN_CONFLICT)
    client = InnerClient(
        next(iter(node.bound.advertised)),
        ask.rights.principal,
        ask.address,
        ask.address,
        client_id=CLIENT_ID,
        is_forwarded=ask.rights.user is not None,  # it has shown who it is, at another listener
        last_active_ms=node.clock.machine.monotonic_ms(),
    )
    version = request.__version__
    call = entity_call(request)
    frame = memoryview(call.frame(version, 0, CLIENT_ID.encode()))[4:]
    name = API_BY_KEY[request.__api_key__].kafka_name
    try:
        reply = await node.dispatcher.answer_enveloped(client, frame)
    except CloseConnectionError as error:
        raise ControlError(f"there is no answer to {name}: {error}", status=IN_CONFLICT) from error
    if reply is None:
        raise ControlError(f"there is no answer to {name}", status=IN_CONFLICT)
    return call.read((b"".join(reply) if isinstance(reply, list) else bytes(reply))[4:], version)


async def ask_at(ask: Ask, broker_id: int | None, request: Entity) -> Any:
    """The answer of a broker, None for this one. Raises ControlError, KafkaError.

    Another broker takes it for this node's: what the user needs for it has to be checked before.
    """
    if broker_id in (None, ask.node.node_id):
        return await ask_broker(ask, request)
    assert broker_id is not None
    return await ask_peer(ask.node.cluster.peers.reach, broker_id, request, lowest=0, timeout_ms=TIMEOUT_MS)


async def answers_of(ask: Ask, questions: Sequence[tuple[int, Entity]]) -> list[Any]:
    """The answer of each broker to a question, as `ask_at` has it; None if it does not answer."""

    async def answer(broker_id: int, request: Entity) -> Any:
        try:
            return await ask_at(ask, broker_id, request)
        except (ControlError, KafkaError):
            return None

    return await asyncio.gather(*(answer(*question) for question in questions))


def by_broker(wanted: Iterable[tuple[int, PartitionKey]]) -> dict[int, list[PartitionKey]]:
    """Which partitions to ask each broker for."""
    at: dict[int, list[PartitionKey]] = {}
    for broker_id, key in wanted:
        at.setdefault(broker_id, []).append(key)
    return at


def require(answered: Any, parameter: str | None = None) -> None:
    """Raises ControlError with the code and the text of an answer, or of a part of one, that has an error."""
    code: ErrorCode = answered.error_code
    if code is not ErrorCode.none:
        raise refusal(code, getattr(answered, "error_message", None), parameter)


def refusal(code: ErrorCode, text: str | None, parameter: str | None = None) -> ControlError:
    """What the user is told who was refused."""
    said = text or type_by_code.get(code, UnknownServerError).default_message
    status = REFUSED if code.name.endswith("authorization_failed") else IN_CONFLICT
    return ControlError(f"{code.name.upper()}: {said}", parameter=parameter, status=status)
