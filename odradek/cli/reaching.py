"""Why no broker lets a client in: librdkafka tries again and again, and tells the cause only to who listens."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import click
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

POLL_S = 0.02
INFO = 6
"""The level at which librdkafka tells that a broker closed a connection; there is no other sign of it."""
FINAL = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE, KafkaError._BAD_MSG)
"""Errors that stay, however often it is tried. A refused connection is none: a broker may be about to start."""
GENERAL = (
    "-b HOST:PORT names another; -X security.protocol=... and a context say how to log in; "
    "odradek doctor -b looks closer"
)
CLOSED = 2
"""So often a broker closes a connection without a word before that counts as an answer."""
_TOLD = re.compile(r"(?:.*\]: )?(?:\w+://)?(\S+)/\w+: (.*?)(?: \(after \d+ms in state (\w+)[^)]*\))?", re.DOTALL)

Answer = TypeVar("Answer")


class Reasons(logging.Handler):
    """Hears of each broker why it was not reached. `settings` are the client's."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__()
        self._protocol = settings.get("security.protocol", "PLAINTEXT").upper()
        self._addresses = [_address(each) for each in settings["bootstrap.servers"].split(",")]
        mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))
        self._waits_for_token = mechanism == "OAUTHBEARER" and settings.get("sasl.oauthbearer.method") != "oidc"
        self._texts: dict[str, str] = {}
        self._closed: Counter[str] = Counter()
        self._final = False

    def listening(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """What a client is given so that it tells; one that is debugged writes its log for people."""
        if "debug" in settings:
            return {"error_cb": self.error}
        logger = logging.Logger("odradek-cli")
        logger.addHandler(self)
        return {"error_cb": self.error, "logger": logger, "log_level": INFO}

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line of the log, of which only those of closed connections count: the others come as errors."""
        if "Disconnected" in record.getMessage():
            self._take(record.getMessage(), final=False)

    def error(self, error: Any) -> None:
        """Take an error."""
        self._take(error.str(), error.code() in FINAL)

    def _take(self, said: str, final: bool) -> None:
        match = _TOLD.fullmatch(said)
        if match is None:
            return
        address, text, state = match.groups()
        if "Disconnected" in text:
            self._closed[address] += 1
            final = self._closed[address] >= CLOSED
        self._final |= final
        self._texts[address] = f"{text} ({self._hint(text, state)})"

    def _hint(self, text: str, state: str | None) -> str:
        """What may mend it; which of several it is, the client library does not know."""
        closed, login = "Disconnected" in text, self._protocol.startswith("SASL")
        if closed and state == "SSL_HANDSHAKE":
            return "the listener may be one without TLS: -X security.protocol=PLAINTEXT or SASL_PLAINTEXT"
        if closed and state == "APIVERSION_QUERY" and self._protocol.endswith("PLAINTEXT"):
            return "the listener may be one of TLS: -X security.protocol=SSL or SASL_SSL"
        if closed and not login:
            return "the listener may want a login: -X security.protocol=SASL_PLAINTEXT or SASL_SSL"
        if "not valid in current SASL state" in text:
            return "the listener wants no login: -X security.protocol=PLAINTEXT or SSL"
        if "SASL" in text:
            return "-X sasl.mechanism, sasl.username and sasl.password, or a context, say how to log in"
        if "certificate verify failed" in text:
            return (
                "-X ssl.ca.location=FILE names the authority that signed the broker's certificate, "
                "in which this address must be"
            )
        if "Invalid response size" in text:
            return "what listens there does not speak Kafka's protocol"
        return GENERAL

    @property
    def hopeless(self) -> bool:
        """Whether each address is known to fail, one of them for good."""
        return self._final and all(address in self._texts for address in self._addresses)

    def __str__(self) -> str:
        if not self._texts and self._waits_for_token:
            return "OAUTHBEARER has no token (-X sasl.oauthbearer.method=oidc and its settings say where one is got)"
        return "; ".join(f"{address}: {text}" for address, text in self._texts.items())


def _address(server: str) -> str:
    """HOST:PORT, as librdkafka writes an entry of bootstrap.servers."""
    plain = server.strip().rpartition("://")[2]
    return plain if re.search(r":\d+$", plain) else f"{plain}:9092"


def reach(admin: AdminClient, asked: Future[Answer], reasons: Reasons, bootstrap: str) -> Answer:
    """The first answer of a cluster. Raises ClickException as soon as it is clear that none will come."""
    while not asked.done() and not reasons.hopeless:
        admin.poll(POLL_S)
    error: Any = asked.exception() if asked.done() else None
    if asked.done() and error is None:
        return asked.result()
    admin.poll(0)  # for what was told at the same time
    if reasons.hopeless:
        raise click.ClickException(f"no broker at {bootstrap} lets this client in: {reasons}")
    if str(reasons) and error.args[0].code() < 0:
        raise not_reached(bootstrap, str(reasons)) from error
    return asked.result()


def not_reached(bootstrap: str, why: str) -> click.ClickException:
    """The error of a command that no broker answered."""
    return click.ClickException(f"no broker answers at {bootstrap}: {why}")
