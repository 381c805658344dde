"""Stock clients that log in: each sends a record, and says what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from tests.client import kafka_node
from tests.conformance.authentication.conversations_mechanisms import unsigned
from tests.conformance.authentication.settings import BOB, DAN, SCRAM_PASSWORD, SECRETS

PATIENCE_S, SHORT_PATIENCE_S = 60.0, 2.0
"""How long a client may take to come in; and how long one may try that will be refused, as some try for ever."""
SENT = "sent"


@dataclass(frozen=True, slots=True)
class Login:
    """How a client shows who it is.

    `ca` and `certificate` are PEM files, `token_s` is for how long its token holds, `patience_s` how long it may try.
    """

    protocol: str
    mechanism: str = ""
    user: str = ""
    password: str = ""
    ca: Path | None = None
    certificate: Path | None = None
    token_s: int = 3600
    patience_s: float = PATIENCE_S

    @property
    def token(self) -> str:
        now = int(time.time())
        return unsigned({"sub": "olga", "iat": now - 7200, "exp": now + self.token_s})


LOGINS = {
    "PLAIN": Login("SASL_SSL", "PLAIN", "alice", SECRETS["alice"]),
    "SCRAM-SHA-256": Login("SASL_SSL", "SCRAM-SHA-256", BOB, SCRAM_PASSWORD),
    "SCRAM-SHA-512": Login("SASL_SSL", "SCRAM-SHA-512", DAN, SCRAM_PASSWORD),
    "OAUTHBEARER": Login("SASL_SSL", "OAUTHBEARER"),
}


def wrong(login: Login) -> Login:
    """The same with a wrong password, or with a token that has expired."""
    hasty = replace(login, patience_s=SHORT_PATIENCE_S)
    return replace(hasty, token_s=-60) if login.mechanism == "OAUTHBEARER" else replace(hasty, password="wrong")


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, login: Login) -> None:
        self._login = login

    async def token(self) -> str:
        return self._login.token


class _PythonTokens(PythonTokenProvider):  # type: ignore[misc]
    """As kafka-python asks for tokens."""

    def __init__(self, login: Login) -> None:
        self._login = login

    def token(self) -> str:
        return self._login.token

    def extensions(self) -> dict[str, str]:
        return {}


def aiokafka_send(bootstrap: str, topic: str, login: Login) -> str:
    context = None
    if login.ca is not None:
        key = None if login.certificate is None else str(login.certificate)
        context = create_ssl_context(cafile=str(login.ca), certfile=key, keyfile=key)

    async def run() -> str:
        settings: dict[str, Any] = {"security_protocol": login.protocol, "ssl_context": context}
        if login.mechanism == "OAUTHBEARER":
            settings |= {"sasl_mechanism": login.mechanism, "sasl_oauth_token_provider": _Tokens(login)}
        elif login.mechanism:
            settings |= {"sasl_mechanism": login.mechanism}
            settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
        try:
            await asyncio.wait_for(producer.start(), login.patience_s)
            await asyncio.wait_for(producer.send_and_wait(topic, b"x"), login.patience_s)
        except (AioKafkaError, TimeoutError) as error:
            return type(error).__name__
        finally:
            await producer.stop()
        return SENT

    return asyncio.run(run())


def confluent_settings(bootstrap: str, login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "security.protocol": login.protocol}
    if login.ca is not None:
        settings["ssl.ca.location"] = str(login.ca)
    if login.certificate is not None:
        settings |= {"ssl.certificate.location": str(login.certificate), "ssl.key.location": str(login.certificate)}
    if login.mechanism:
        settings["sasl.mechanism"] = login.mechanism
    if login.mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (login.token, time.time() + 3600)
    elif login.mechanism:
        settings |= {"sasl.username": login.user, "sasl.password": login.password}
    return settings


def confluent_send(bootstrap: str, topic: str, login: Login) -> str:
    errors: list[str] = []
    settings = confluent_settings(bootstrap, login)
    settings |= {"error_cb": lambda error: errors.append(error.name()), "logger": _quiet()}
    producer = Producer(settings)
    producer.produce(topic, b"x")
    deadline = time.monotonic() + PATIENCE_S  # it is told when it is refused
    while producer.flush(0.1) and time.monotonic() < deadline:
        refused = next((name for name in ("_AUTHENTICATION", "_SSL", "_ALL_BROKERS_DOWN") if name in errors), None)
        if refused is not None:
            producer.purge()
            return refused
    return errors[0] if len(producer) else SENT


def _quiet() -> Any:
    import logging

    logger = logging.getLogger("quiet")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def kafka_python_send(bootstrap: str, topic: str, login: Login) -> str:
    settings: dict[str, Any] = {"security_protocol": login.protocol}
    if login.ca is not None:
        settings["ssl_cafile"] = str(login.ca)
    if login.certificate is not None:
        settings |= {"ssl_certfile": str(login.certificate), "ssl_keyfile": str(login.certificate)}
    if login.mechanism:
        settings["sasl_mechanism"] = login.mechanism
    if login.mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _PythonTokens(login)
    elif login.mechanism:
        settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    limit_ms = int(login.patience_s * 1000)
    try:
        with contextlib.closing(
            KafkaProducer(bootstrap_servers=bootstrap, max_block_ms=limit_ms, bootstrap_timeout_ms=limit_ms, **settings)
        ) as producer:
            producer.send(topic, b"x").get(login.patience_s)
    except (PythonKafkaError, AssertionError) as error:
        return type(error).__name__
    return SENT


_MODULES = {
    "PLAIN": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}";',
    "OAUTHBEARER": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="olga" unsecuredLoginLifetimeSeconds="{}";'
    ),
}
_SCRAM_MODULE = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'


def java_settings(login: Login) -> str:
    """A properties file of a Java client."""
    lines = [f"security.protocol={login.protocol}"]
    if login.ca is not None:
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={login.ca}"]
    if login.certificate is not None:
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={login.certificate}"]
    if login.mechanism == "OAUTHBEARER":
        module = _MODULES["OAUTHBEARER"].format(max(login.token_s, 1))
        lines += [f"sasl.mechanism={login.mechanism}", f"sasl.jaas.config={module}"]
    elif login.mechanism:
        module = _MODULES.get(login.mechanism, _SCRAM_MODULE).format(login.user, login.password)
        lines += [f"sasl.mechanism={login.mechanism}", f"sasl.jaas.config={module}"]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def java_settings_file(login: Login) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        file.write(java_settings(login))
        file.flush()
        yield file.name


def java_send(bootstrap: str, topic: str, login: Login) -> str:
    with java_settings_file(login) as settings:
        main = "org.apache.kafka.tools.ConsoleProducer"
        options = ("--sync", "--command-property", "max.block.ms=60000", "--command-config", settings)
        command = kafka_node.command(main, "--bootstrap-server", bootstrap, "--topic", topic, *options)
        run = subprocess.run(command, input=b"x\n", capture_output=True, timeout=120, check=False)
    said = (run.stdout + run.stderr).decode()
    for name in ("SaslAuthenticationException", "SslAuthenticationException", "TimeoutException", "Exception"):
        if name in said:
            return name
    return SENT


Send = Callable[[str, str, Login], str]
CLIENTS: dict[str, Send] = {
    "aiokafka": aiokafka_send,
    "confluent-kafka": confluent_send,
    "kafka-python": kafka_python_send,
    "java": java_send,
}
