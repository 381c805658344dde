"""The part of the commands that work through kafka-python: its admin client, its settings and errors.

It is imported by those commands alone, as it takes longer than all else that a command imports.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import click
from kafka import KafkaAdminClient
from kafka import errors as kafka_errors

from odradek.cli.messages import OUR_SOFTWARE

KAFKAS_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
    128: "INVALID_REGULAR_EXPRESSION",
    129: "REBOOTSTRAP_REQUIRED",
    130: "STREAMS_INVALID_TOPOLOGY",
    131: "STREAMS_INVALID_TOPOLOGY_EPOCH",
    132: "STREAMS_TOPOLOGY_FENCED",
    133: "SHARE_SESSION_LIMIT_REACHED",
}
"""Errors that kafka-python does not know, or calls otherwise than Kafka."""


def name_of(code: int) -> str:
    """Kafka's name of an error code."""
    return KAFKAS_NAMES.get(code) or str(getattr(kafka_errors.for_code(code), "message", None) or f"error {code}")


def require_no_error(answer: Any) -> None:
    """Raises KafkaError if an answer, or a part of one, has an error."""
    if answer.error_code:
        raise kafka_errors.for_code(answer.error_code)(getattr(answer, "error_message", None) or "")


OF_KAFKA_PYTHON = {
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "client.id": "client_id",
}
"""Settings of librdkafka whose values are the same in kafka-python, and what they are called there."""


LOOK_AGAIN_S = 0.1
NOT_CONNECTED = (kafka_errors.KafkaConnectionError, kafka_errors.NodeNotReadyError)


class PythonAdmin(KafkaAdminClient):  # type: ignore[misc]
    """It says who it is, so that a broker of ours lists its own requests.

    As Java's admin client, it asks another broker if one does not take a connection, and waits for a coordinator that
    is about to be there: the first question makes the topic of the coordinators.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        **KafkaAdminClient.DEFAULT_CONFIG,
        "client_software_name": OUR_SOFTWARE,
    }

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        send = self._manager.send

        async def to_one_that_answers(request: Any, node_id: Any = None, **more: Any) -> Any:
            return await send(request, await self._any_broker() if node_id is None else node_id, **more)

        self._manager.send = to_one_that_answers

    async def _any_broker(self) -> Any:
        """A broker that takes a connection; None if none does."""
        for _ in self._manager.cluster.brokers():
            node_id = self._manager.least_loaded_node()
            try:
                await self._manager.get_connection(node_id)
            except (*NOT_CONNECTED, kafka_errors.KafkaTimeoutError):
                continue
            return node_id
        return None

    async def _find_coordinator_ids(self, *arguments: Any, **more: Any) -> Any:
        until = time.monotonic() + self.config["request_timeout_ms"] / 1000
        while True:
            try:
                return await super()._find_coordinator_ids(*arguments, **more)
            except kafka_errors.CoordinatorNotAvailableError:
                if time.monotonic() >= until:
                    raise
            await self._net.sleep(LOOK_AGAIN_S)


def settings_for_kafka_python(settings: Mapping[str, str]) -> dict[str, Any]:
    """The same settings for kafka-python. Raises ClickException for one of security that it has not."""
    given: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "ssl.endpoint.identification.algorithm":
            given["ssl_check_hostname"] = value != "none"
        elif name == "security.protocol":
            given["security_protocol"] = value.upper()
        elif name in OF_KAFKA_PYTHON:
            given[OF_KAFKA_PYTHON[name]] = value
        elif name.startswith(("ssl.", "sasl.")):
            raise click.ClickException(f"this command works through kafka-python, which has no setting like {name}")
    return given
