"""Stock clients over TLS and SASL: whom the broker lets in, whom it does not, and what it says."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from cryptography import x509

from odradek import Broker
from tests.brokers import sound_broker
from tests.certificates import BROKER, HOSTS, pair, pair_of
from tests.client import kafka_node, other_languages
from tests.client.secure import (
    CLIENTS,
    LOGINS,
    SENT,
    SHORT_PATIENCE_S,
    Login,
    confluent_settings,
    java_settings_file,
    wrong,
)
from tests.conformance.authentication.settings import (
    LISTENERS,
    SCRAM_PASSWORD,
    SECRETS,
    Certificates,
    add_scram_users,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_cluster")


@dataclass(frozen=True, slots=True)
class Secured:
    """A broker, its certificates, and its clients' as files."""

    broker: Broker
    certificates: Certificates
    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def with_ca(self, login: Login) -> Login:
        return replace(login, ca=self.ca)

    def client_certificate(self, name: str) -> Path:
        path = self.folder / f"client {name}.pem"
        path.write_bytes(self.certificates.clients[name].pem)
        return path

    def address(self, listener: str) -> str:
        return self.broker.listeners[listener]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    certificates = Certificates(folder)
    (folder / "stale.pem").write_bytes(pair_of(certificates.ca, BROKER, hosts=HOSTS, expired=True).pem)
    settings = certificates.settings()
    settings["listeners"] = ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *LISTENERS, "STALE", "LONGER"))
    settings["listener.security.protocol.map"] += ",STALE:SSL,LONGER:SASL_PLAINTEXT"
    settings["listener.name.longer.plain.sasl.jaas.config"] = settings["listener.name.sasl.plain.sasl.jaas.config"]
    settings["listener.name.longer.sasl.enabled.mechanisms"] = "PLAIN"
    settings["listener.name.longer.connections.max.reauth.ms"] = "4000"
    settings["listener.name.stale.ssl.keystore.type"] = "PEM"
    settings["listener.name.stale.ssl.keystore.location"] = str(folder / "stale.pem")
    with sound_broker(settings | {"odradek.http.port": "0"}) as broker:
        add_scram_users(broker.listeners["PLAINTEXT"])
        yield Secured(broker, certificates, folder)


Send = Callable[[str, str, Login], str]


@pytest.fixture(params=[*CLIENTS, *other_languages.COMMANDS])
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    reason = kafka_node.missing() if name == "java" else None
    if name in other_languages.COMMANDS and isinstance(command := other_languages.COMMANDS[name](), str):
        reason = command
    if reason:
        pytest.skip(reason)
    return name


@pytest.fixture
def send(client: str) -> Send:
    """Send a record to a topic with this client; what came of it."""
    return CLIENTS.get(client) or partial(other_languages.send, client)


@pytest.mark.parametrize("mechanism", LOGINS)
def test_sasl_who_knows_the_password_comes_in(secured: Secured, send: Send, mechanism: str, topic: str) -> None:
    login = secured.with_ca(LOGINS[mechanism])
    assert send(secured.address("BOTH"), topic, login) == SENT


@pytest.mark.parametrize("mechanism", LOGINS)
def test_sasl_who_does_not_is_refused_and_told(
    secured: Secured, client: str, send: Send, mechanism: str, topic: str
) -> None:
    if client == "java" and mechanism == "OAUTHBEARER":
        pytest.skip("its unsecured login makes no token that has expired")
    login = secured.with_ca(wrong(LOGINS[mechanism]))
    outcome = send(secured.address("BOTH"), topic, login)
    assert (
        outcome
        in {
            "aiokafka": {"KafkaConnectionError", "TimeoutError"},
            "confluent-kafka": {"_AUTHENTICATION"},
            "kafka-python": {"SaslAuthenticationFailedError", "NoBrokersAvailable", "KafkaTimeoutError"},
            "java": {"SaslAuthenticationException"},
            "franz-go": {"SASL_AUTHENTICATION_FAILED"},
            "kafkajs": {"KafkaJSSASLAuthenticationError", "KafkaJSNonRetriableError"},
        }[client]
    )


def test_ssl_client_auth_takes_a_certificate_for_a_login(secured: Secured, send: Send, topic: str) -> None:
    login = Login("SSL", ca=secured.ca, certificate=secured.client_certificate("alice"))
    assert send(secured.address("MUTUAL"), topic, login) == SENT


BY_THE_BROKER = {
    "aiokafka": {"KafkaConnectionError", "TimeoutError"},
    "confluent-kafka": {"_ALL_BROKERS_DOWN", "_SSL"},
    "kafka-python": {"KafkaTimeoutError", "NoBrokersAvailable"},
    "java": {"SslAuthenticationException"},
    "kafkajs": {"KafkaJSNumberOfRetriesExceeded"},
}
"""What a client says whose certificate is refused, beside Apache Kafka 4.4 too; franz-go says in words what TLS did."""

BY_THE_CLIENT = BY_THE_BROKER | {"confluent-kafka": {"_SSL"}}
"""What a client says that refuses the broker's certificate, beside Apache Kafka 4.4 too."""


def is_one_of(outcomes: dict[str, set[str]], client: str, outcome: str) -> bool:
    if client == "franz-go":
        return any(words in outcome for words in ("tls: ", "EOF", "reset by peer", "broken pipe"))
    return outcome in outcomes[client]


@pytest.mark.parametrize("name", ["expired", "unknown authority"])
def test_ssl_client_auth_refuses_a_bad_certificate(
    secured: Secured, client: str, send: Send, name: str, topic: str
) -> None:
    certificate = secured.client_certificate(name)
    login = Login("SSL", ca=secured.ca, certificate=certificate, patience_s=SHORT_PATIENCE_S)
    outcome = send(secured.address("MUTUAL"), topic, login)
    assert is_one_of(BY_THE_BROKER, client, outcome), outcome
    wait_until(lambda: "TLS handshake failed" in secured.broker.log(), "the broker says nothing of it")


def test_a_broker_whose_authority_is_unknown_is_not_talked_to(
    secured: Secured, client: str, send: Send, topic: str
) -> None:
    other = secured.folder / "other.pem"
    other.write_bytes(secured.certificates.other_ca.cert_pem.bytes())
    outcome = send(secured.address("TLS"), topic, Login("SSL", ca=other, patience_s=SHORT_PATIENCE_S))
    assert is_one_of(BY_THE_CLIENT, client, outcome), outcome


WITHOUT_AN_ALERT = ("aiokafka", "kafkajs")
"""asyncio closes without the alert that would say why, and Node finishes the handshake before it looks."""


def test_a_broker_whose_certificate_has_expired_is_not_talked_to(
    secured: Secured, client: str, send: Send, topic: str
) -> None:
    before = len(secured.broker.log())
    outcome = send(secured.address("STALE"), topic, Login("SSL", ca=secured.ca, patience_s=SHORT_PATIENCE_S))
    assert is_one_of(BY_THE_CLIENT, client, outcome), outcome
    assert "our certificate has expired: clients refuse it" in secured.broker.log()
    if client not in WITHOUT_AN_ALERT:
        wait_until(
            lambda: "the client refuses our certificate" in secured.broker.log()[before:],
            "the broker does not say why the client left",
        )


# -- sessions


def test_kip_368_re_authentication_under_load(secured: Secured, topic: str) -> None:
    login = replace(LOGINS["PLAIN"], protocol="SASL_PLAINTEXT")
    producer = Producer(confluent_settings(secured.address("AGAIN"), login))
    failed: list[object] = []
    sent, end = 0, time.monotonic() + 6
    while time.monotonic() < end:
        producer.produce(topic, b"x" * 100, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.002)
        sent += 1
    assert producer.flush(60) == 0
    assert not failed
    assert sent > 50
    assert "the session is over" not in secured.broker.log()


@pytest.mark.parametrize("name", other_languages.COMMANDS)
def test_kip_368_re_authentication_of_other_clients(secured: Secured, name: str, topic: str) -> None:
    if isinstance(reason := other_languages.COMMANDS[name](), str):
        pytest.skip(reason)
    login = replace(LOGINS["PLAIN"], protocol="SASL_PLAINTEXT")
    with other_languages.session(name, secured.address("LONGER"), topic, login) as send:
        assert send("first") == SENT
        connected = logged_in(secured.broker, "LONGER")
        deadline = time.monotonic() + 60
        while logged_in(secured.broker, "LONGER") == connected:
            assert send("again") == SENT
            assert time.monotonic() < deadline, "it does not authenticate again"
            time.sleep(0.05)
        assert send("last") == SENT
    over = [line for line in secured.broker.log().splitlines() if "the session is over" in line]
    assert not [line for line in over if "LONGER" in line]


def logged_in(broker: Broker, listener: str) -> float:
    """How often clients of the listener have authenticated."""
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    series = f'odradek_authentications_total{{listener="{listener}"'
    return sum(float(line.split()[-1]) for line in lines if line.startswith(series) and 'outcome="success"' in line)


def test_kip_368_re_authentication_of_java_under_load(secured: Secured, topic: str) -> None:
    if reason := kafka_node.missing():
        pytest.skip(reason)
    login = replace(LOGINS["SCRAM-SHA-256"], protocol="SASL_PLAINTEXT")
    with java_settings_file(login) as settings:
        options = ("--topic", topic, "--num-records", "1500", "--record-size", "100", "--throughput", "300")
        servers = ("--bootstrap-server", secured.address("AGAIN"), "--command-config", settings)
        command = kafka_node.command("org.apache.kafka.tools.ProducerPerformance", *options, *servers)
        run = subprocess.run(command, capture_output=True, timeout=180, check=False)
    said = (run.stdout + run.stderr).decode()
    assert "1500 records sent" in said, said
    assert "Exception" not in said
    assert "the session is over" not in secured.broker.log()


# -- certificates that change


def shown_serial(address: str, ca: Path) -> int:
    """The number of the certificate that a new connection is shown."""
    host, port = address.rsplit(":", 1)
    context = ssl.create_default_context(cafile=ca)
    with (
        socket.create_connection((host, int(port)), 5) as connection,
        context.wrap_socket(connection, server_hostname="localhost") as wrapped,
    ):
        der = wrapped.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


def test_a_renewed_certificate_is_used_without_a_restart(secured: Secured) -> None:
    before = shown_serial(secured.address("TLS"), secured.ca)
    store = secured.folder / "broker.pem"
    new = secured.folder / "broker.new"
    new.write_bytes(pair(secured.certificates.ca, *HOSTS).pem)
    os.replace(new, store)
    deadline = time.monotonic() + 60
    while shown_serial(secured.address("TLS"), secured.ca) == before:
        assert time.monotonic() < deadline, secured.broker.log()[-2000:]
        time.sleep(0.2)


# -- what is not shown


def test_no_secret_is_seen_anywhere(secured: Secured, topic: str) -> None:
    for login in (LOGINS["PLAIN"], wrong(LOGINS["PLAIN"]), LOGINS["SCRAM-SHA-256"]):
        CLIENTS["confluent-kafka"](secured.address("BOTH"), topic, secured.with_ca(login))
    admin = AdminClient({"bootstrap.servers": secured.address("PLAINTEXT")})
    (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    told = " ".join(f"{name}={entry.value}" for name, entry in described.result(10).items())
    assert "sasl.jaas.config" in told
    process = Path(f"/proc/{secured.broker.pid}")
    seen = [told, secured.broker.log()]
    seen += [(process / name).read_text(errors="replace") for name in ("cmdline", "environ")]
    for secret in (*SECRETS.values(), SCRAM_PASSWORD, "PRIVATE KEY"):
        assert not [text[:200] for text in seen if secret in text]


# -- snapshots


def test_a_restored_snapshot_brings_its_users_back(topic: str) -> None:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"}
    settings |= {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    login = replace(LOGINS["SCRAM-SHA-256"], protocol="SASL_PLAINTEXT")
    with sound_broker(settings) as broker:
        empty = broker.snapshot()
        add_scram_users(broker.listeners["PLAINTEXT"])
        peopled = broker.snapshot()
        address = broker.listeners["SASL_PLAINTEXT"]
        assert CLIENTS["confluent-kafka"](address, topic, login) == SENT
        broker.restore(empty)
        assert CLIENTS["confluent-kafka"](address, topic, login) == "_AUTHENTICATION"
        broker.restore(peopled)
        assert CLIENTS["confluent-kafka"](address, topic, login) == SENT
