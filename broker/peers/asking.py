"""Questions to other brokers of the cluster, in Kafka's own requests: those brokers may be Apache Kafka's."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from broker.peers.call import entity_call
from broker.peers.errors import PeerError, PeerVersionError
from broker.peers.queues import Reach
from protocol.errors import Network, type_by_code
from protocol.schema import Entity

PATIENCE_MS = 3_000.0
"""How long somebody is asked again, in the machine's time: who has just gone is soon replaced."""

RETRY_MS = 50.0


class NoAnswerError(Network):
    """A broker has given no answer; the message names the broker, and says why."""


class NotServedError(NoAnswerError):
    """A broker does not know the request."""


async def ask(reach: Reach, broker_id: int, request: Entity, *, lowest: int, timeout_ms: float | None = None) -> Any:
    """The answer of a broker, in the newest version of the API that both know. Raises NoAnswerError."""
    client = reach(broker_id)
    if client is None:
        raise NoAnswerError(f"broker {broker_id} is not alive")
    try:
        return await client.send(entity_call(request, lowest=lowest), timeout_ms)
    except PeerVersionError as error:
        raise NotServedError(f"broker {broker_id}: {error}") from error
    except PeerError as error:
        raise NoAnswerError(f"broker {broker_id} gave no answer: {error}") from error


def check(broker_id: int, code: ErrorCode) -> None:
    """Raises the KafkaError that a broker has answered."""
    if code is not ErrorCode.none:
        error = type_by_code[code]
        raise error(f"broker {broker_id} answers: {error.default_message}")
