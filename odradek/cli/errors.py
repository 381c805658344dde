"""What a cluster refuses, by Kafka's names."""

from __future__ import annotations

import click
from confluent_kafka import KafkaException
from kafka import errors as kafka_errors

NOT_REACHED = ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_AUTHENTICATION", "_SSL")


def error_name(error: BaseException) -> str:
    """The name of the error, as Kafka writes it, such as UNKNOWN_TOPIC_OR_PARTITION."""
    if isinstance(error, KafkaException):
        code = error.args[0].code()
        return name_of(code) if code > 0 else str(error.args[0].name())
    return str(getattr(error, "message", None) or type(error).__name__)


def name_of(code: int) -> str:
    """Kafka's name of an error code."""
    return str(getattr(kafka_errors.for_code(code), "message", None) or f"error {code}")


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
        return click.ClickException(
            f"no broker answers at {bootstrap}: {error.args[0].str()} (-b HOST:PORT names another; "
            "-X security.protocol=... and a context say how to log in; odradek doctor -b looks closer)"
        )
    return click.ClickException(sentence(error))
