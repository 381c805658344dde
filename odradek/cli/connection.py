"""How a command reaches a cluster: options that all commands have, contexts, and the two client libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, ClassVar

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from odradek.cli import contexts
from odradek.cli.arguments import pairs, require_text
from odradek.cli.errors import error_name, refused, sentence
from odradek.cli.general_options import General, general_options, given
from odradek.cli.messages import OUR_SOFTWARE
from odradek.cli.output import Output
from odradek.cli.reaching import Answer, Reasons, reach

BOOTSTRAP = "ODRADEK_BOOTSTRAP"
CONTEXT = "ODRADEK_CONTEXT"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

BYTES = ("values", "key", "key_delimiter", "headers")
"""Arguments of `produce` that may be any bytes."""
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


class _Admin(KafkaAdminClient):  # type: ignore[misc]
    """It says who it is, so that a broker of ours lists its own requests."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        **KafkaAdminClient.DEFAULT_CONFIG,
        "client_software_name": OUR_SOFTWARE,
    }


@dataclass(frozen=True)
class Cluster:
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

        It begins with the broker that has answered: it would wait for the first of several that it tries.
        """
        reached, timeout_ms = self._reached[1], int(self.timeout * 1000)
        answered = reached.controller or next(iter(reached.nodes))
        host = f"[{answered.host}]" if ":" in answered.host else answered.host
        return {
            "client_id": "odradek-cli",
            **_of_kafka_python(self.settings),
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
        given = self.python_config()
        if patience is not None:
            given["request_timeout_ms"] = int(patience * 1000)
        client = _Admin(**given)
        try:
            yield client
        finally:
            client.close()


def _of_kafka_python(settings: Mapping[str, str]) -> dict[str, Any]:
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


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that say which cluster; it gets a Cluster and an Output."""

    @wraps(command)
    def wrapped(**more: Any) -> None:
        general = given(click.get_current_context())
        require_text([value for name, value in more.items() if name not in BYTES], vars(general).values())
        out = Output(general.as_json)
        cluster = Cluster(_settings(general), general.timeout)
        try:
            command(cluster, out, **more)
        except (KafkaException, KafkaError) as error:
            raise refused(error, cluster.bootstrap) from error
        out.end()

    decorated: Callable[..., None] = general_options(wrapped)
    return decorated


def _settings(general: General) -> dict[str, str]:
    """Those of the context, then -X, then -b. Another cluster than the current context's has none of its settings."""
    name = general.context or os.environ.get(CONTEXT)
    found = contexts.find(name or None) if name or not general.bootstrap else {}
    settings = {"bootstrap.servers": os.environ.get(BOOTSTRAP, DEFAULT_BOOTSTRAP), **found}
    settings |= dict(pairs(general.settings, "-X"))
    if general.bootstrap:
        settings["bootstrap.servers"] = general.bootstrap
    return settings


@contextmanager
def refusals(out: Output, what: Mapping[str, Any]) -> Iterator[None]:
    """Tell what the cluster refuses of one of several things, so that the others are done."""
    try:
        yield
    except (KafkaException, KafkaError) as error:
        out.failure(what, error_name(error), sentence(error))


def settle(out: Output, kind: str, futures: Any, done: str, name: Callable[[Any], object] = str) -> None:
    """Wait for what was asked for each of several things, and tell what came of it: `futures` are by thing."""
    for key, future in futures.items():
        with refusals(out, {kind: name(key)}):
            future.result()
            out.result({kind: name(key)}, done)
