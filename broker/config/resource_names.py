"""The id in the name of a BROKER or BROKER_LOGGER resource."""

from __future__ import annotations

from broker.config.definition import parse_integer
from protocol.errors import InvalidRequest


def node_id_of(name: str, *, called: str) -> int:
    """The id in a resource's name; `01` and `+1` are 1. Raises InvalidRequest.

    `called` is Kafka's word for the id in its refusal: "Broker" when describing, "Node" when altering.
    """
    node_id = parse_integer(name, 32)
    if node_id is None:
        raise InvalidRequest(f"{called} id must be an integer, but it is: {name}")
    return node_id
