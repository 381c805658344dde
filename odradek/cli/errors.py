"""What a cluster refuses, by Kafka's names."""

from __future__ import annotations

from typing import Any

import click
from confluent_kafka import KafkaException
from kafka import errors as kafka_errors

from odradek.cli.reaching import GENERAL, not_reached

NOT_REACHED = ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_AUTHENTICATION", "_SSL")


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


def error_name(error: BaseException) -> str:
    """The name of the error, as Kafka writes it, such as UNKNOWN_TOPIC_OR_PARTITION."""
    if isinstance(error, KafkaException):
        code = error.args[0].code()
        return name_of(code) if code > 0 else str(error.args[0].name())
    code = getattr(error, "errno", None)
    return type(error).__name__ if code is None else name_of(code)


def name_of(code: int) -> str:
    """Kafka's name of an error code."""
    return KAFKAS_NAMES.get(code) or str(getattr(kafka_errors.for_code(code), "message", None) or f"error {code}")


def require_no_error(answer: Any) -> None:
    """Raises KafkaError if an answer, or a part of one, has an error."""
    if answer.error_code:
        raise kafka_errors.for_code(answer.error_code)(answer.error_message or "")


def sentence(error: BaseException) -> str:
    """The name, and what the cluster says about it."""
    name = error_name(error)
    if isinstance(error, KafkaException):
        text = error.args[0].str()
    else:
        text = str(error.args[0]) if error.args else str(getattr(error, "description", ""))
    return f"{name}: {text}" if text and text != name else name


def refused(error: BaseException, bootstrap: str) -> click.ClickException:
    """What the command ends with, if nothing of it could be done."""
    if isinstance(error, KafkaException) and error.args[0].name() in NOT_REACHED:
        return not_reached(bootstrap, f"{error.args[0].str()} ({GENERAL})")
    if isinstance(error, KafkaException) and error.args[0].name() == "_INVALID_ARG":
        text, hint = error.args[0].str(), "the settings of -X and of a context are librdkafka's"
        if "mechanism GSSAPI" in text:  # the default of librdkafka
            hint = "-X sasl.mechanism=PLAIN or SCRAM-SHA-512 chooses another"
        return click.UsageError(f"{text} ({hint})")
    return click.ClickException(sentence(error))
