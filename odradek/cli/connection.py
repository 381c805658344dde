"""How a command reaches a cluster: its settings, the two client libraries, and why no broker lets a client in.

librdkafka tries again and again, and tells the cause only to who listens: `Reasons` hears of each broker why it was not
reached, so that a command ends as soon as it is clear that no answer will come. What a cluster refuses is told by
Kafka's names.
"""

from __future__ import annotations

import logging
import re
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from types import MappingProxyType
from typing import Any, TypeVar

import click
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from odradek.cli import contexts
from odradek.cli.general import general_options, given, require_text
from odradek.cli.output import Output

POLL_S = 0.02
INFO = 6
"""The level at which librdkafka tells that a broker closed a connection; there is no other sign of it."""
FINAL = (LibrdkafkaError._AUTHENTICATION, LibrdkafkaError._SSL, LibrdkafkaError._RESOLVE, LibrdkafkaError._BAD_MSG)
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
        """Return the settings by which a client tells its errors; one that is debugged writes its log for people."""
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
        """Say what may mend it; which of several it is, the client library does not know."""
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
        return self._final and self.all_failed

    @property
    def all_failed(self) -> bool:
        """Whether each address is known to fail, perhaps only for now."""
        return all(address in self._texts for address in self._addresses)

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
    waits = False
    while not asked.done() and not reasons.hopeless:
        admin.poll(POLL_S)
        if reasons.all_failed and not waits and sys.stderr.isatty():
            click.echo(f"no broker answers at {bootstrap} yet; waiting for one (--timeout says how long)", err=True)
            waits = True
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


NOT_REACHED_NAME = "NOT_REACHED"
NOT_REACHED = ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_AUTHENTICATION", "_SSL")


def client_errors() -> tuple[type[Exception], ...]:
    """The exceptions of the client libraries. kafka-python, half of a command's start, raises only once it is used."""
    used = sys.modules.get("kafka.errors")
    return (KafkaException,) if used is None else (KafkaException, used.KafkaError)


def error_name(error: BaseException) -> str:
    """The name of the error, as Kafka writes it, such as UNKNOWN_TOPIC_OR_PARTITION."""
    from odradek.cli.kafka_python import NOT_CONNECTED, name_of

    if isinstance(error, NOT_CONNECTED):
        return NOT_REACHED_NAME
    if isinstance(error, KafkaException):
        code = error.args[0].code()
        return name_of(code) if code > 0 else str(error.args[0].name())
    code = getattr(error, "errno", None)
    return type(error).__name__ if code is None else name_of(code)


def sentence(error: BaseException) -> str:
    """The name, and what the cluster says about it."""
    name = error_name(error)
    if isinstance(error, KafkaException):
        text = error.args[0].str()
    else:
        text = str(error.args[0]) if error.args else str(getattr(error, "description", ""))
    if name == NOT_REACHED_NAME:
        text = (
            "no connection" if text.isdecimal() else f"no connection ({text})"
        )  # of some, only the broker's id is told
    return f"{name}: {text}" if text and text != name else name


def refused(error: BaseException, bootstrap: str) -> click.ClickException:
    """Make the exception with which a command ends, if nothing of it could be done."""
    if isinstance(error, KafkaException) and error.args[0].name() in NOT_REACHED:
        return not_reached(bootstrap, f"{error.args[0].str()} ({GENERAL})")
    if isinstance(error, KafkaException) and error.args[0].name() == "_INVALID_ARG":
        text, hint = error.args[0].str(), "the settings of -X and of a context are librdkafka's"
        if "mechanism GSSAPI" in text:  # the default of librdkafka
            hint = "-X sasl.mechanism=PLAIN or SCRAM-SHA-512 chooses another"
        return click.UsageError(f"{text} ({hint})")
    return click.ClickException(sentence(error))


BYTES = ("values", "key", "key_delimiter", "headers")
"""Arguments of `produce` that may be any bytes."""


@dataclass(frozen=True)
class TargetCluster:
    """The cluster that a command is for. `settings` are librdkafka's; `timeout` is in seconds."""

    settings: Mapping[str, str]
    timeout: float

    @property
    def bootstrap(self) -> str:
        return self.settings["bootstrap.servers"]

    def config(self, **more: object) -> dict[str, Any]:
        """The configuration of a client; `more` has underscores in place of dots."""
        given = {name.replace("_", "."): value for name, value in more.items()}
        return {"log_level": 0, "client.id": "odradek-cli", **self.settings, **given}

    def python_config(self) -> dict[str, Any]:
        """The configuration of a client of kafka-python. Raises ClickException for a setting that it has not.

        It begins with a broker that takes connections: it would wait for the first of several that it tries.
        """
        from odradek.cli.kafka_python import settings_for_kafka_python

        reached, timeout_ms = self._reached[1], int(self.timeout * 1000)
        known = {(node.host, node.port): node for node in (reached.controller, *reached.nodes) if node is not None}
        answered = next(filter(takes_connections, known.values()), None) if len(known) > 1 else None
        answered = answered or next(iter(known.values()))
        host = f"[{answered.host}]" if ":" in answered.host else answered.host
        return {
            "client_id": "odradek-cli",
            **settings_for_kafka_python(self.settings),
            "bootstrap_servers": [f"{host}:{answered.port}"],
            "bootstrap_timeout_ms": timeout_ms,
            "request_timeout_ms": timeout_ms,
        }

    def admin(self) -> AdminClient:
        """The admin client of librdkafka, which has reached the cluster. Raises KafkaException, ClickException."""
        return self._reached[0]

    def broker_ids(self) -> list[int]:
        """The ids of the brokers. Raises KafkaException, ClickException."""
        return sorted(int(node.id) for node in self._reached[1].nodes)

    @cached_property
    def _reached(self) -> tuple[AdminClient, Any]:
        """The client and the cluster's description. It is kept: its questions are answered as long as it exists."""
        return self.reach(lambda admin: admin.describe_cluster(request_timeout=self.timeout))

    def reach(self, ask: Callable[[AdminClient], Future[Answer]]) -> tuple[AdminClient, Answer]:
        """A new admin client, and its first answer. Raises KafkaException, ClickException that says the cause."""
        reasons = Reasons(self.settings)
        admin = AdminClient(
            self.config(socket_timeout_ms=max(1000, int(self.timeout * 1000))) | reasons.listening(self.settings)
        )
        return admin, reach(admin, ask(admin), reasons, self.bootstrap)

    @contextmanager
    def python_admin(self, patience: float | None = None) -> Iterator[Any]:
        """The admin client of kafka-python, whose requests may take `patience` seconds, by default the timeout.

        Raises KafkaException, KafkaError.
        """
        from odradek.cli.kafka_python import PythonAdmin

        given = self.python_config()
        if patience is not None:
            given["request_timeout_ms"] = int(patience * 1000)
        client = PythonAdmin(**given)
        try:
            yield client
        finally:
            client.close()


CONNECT_S = 1.0


def takes_connections(node: Any) -> bool:
    """Whether a broker is there: one that has just died is still among those that the cluster knows."""
    try:
        socket.create_connection((node.host, node.port), CONNECT_S).close()
    except OSError:
        return False
    return True


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the options that say which cluster; it gets a Cluster and an Output."""

    @wraps(command)
    def wrapped(**more: Any) -> None:
        on_cluster(command, **more)

    decorated: Callable[..., None] = general_options(wrapped)
    return decorated


def on_cluster(command: Callable[..., None], **more: Any) -> None:
    """Run a command on the cluster that the general options name. Raises ClickException."""
    general = given(click.get_current_context())
    require_text([value for name, value in more.items() if name not in BYTES], vars(general).values())
    out = Output(general.as_json)
    cluster = TargetCluster(contexts.cluster_settings(general), general.timeout)
    try:
        command(cluster, out, **more)
    except client_errors() as error:
        raise refused(error, cluster.bootstrap) from error
    out.end()


@contextmanager
def refusals(out: Output, what: Mapping[str, Any]) -> Iterator[None]:
    """Print what the cluster refuses of one of several things, so that the others are done."""
    try:
        yield
    except client_errors() as error:
        out.failure(what, error_name(error), sentence(error))


def wait_for_each(
    out: Output,
    kind: str,
    futures: Any,
    done: str,
    name: Callable[[Any], object] = str,
    no_error: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Wait for what was asked for each of several things, and print what came of it: `futures` are by thing.

    `no_error` has what is printed of errors that are none here, by their names.
    """
    for key, future in futures.items():
        with refusals(out, {kind: name(key)}):
            error = future.exception()
            if error is not None and error_name(error) not in no_error:
                raise error
            out.result({kind: name(key)}, done if error is None else no_error[error_name(error)])
