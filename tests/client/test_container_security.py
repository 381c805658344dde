"""Security and listeners in environments written for other images, given to the image's start script."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from trustme import CA

from tests.certificates import pair
from tests.client.test_container_environments import container, healthcheck, until_ready
from tests.ports import free_ports

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
APACHE_KRAFT = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
}


def brokers(port: int, patience_s: float = 15, /, **client: str) -> set[str]:
    """The addresses that a client is told. One that is refused goes on trying, with KafkaException at the end."""
    shown = {name.replace("_", "."): value for name, value in client.items()}
    admin = AdminClient({"bootstrap.servers": f"localhost:{port}", **shown})
    return {f"{one.host}:{one.port}" for one in admin.list_topics(timeout=patience_s).brokers.values()}


def test_users_of_the_jaas_file_that_kafka_opts_name_log_in(tmp_path: Path) -> None:
    port, inner, spare = free_ports(3)
    jaas = tmp_path / "broker_jaas.conf"
    jaas.write_text(
        f'KafkaServer {{\n {PLAIN} required\n username="admin" password="admin-secret"\n'
        ' user_admin="admin-secret" user_alice="alice-secret";\n};\n'
    )
    environment = APACHE_KRAFT | {
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,HOST:SASL_PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": f"HOST://localhost:{port},SASL_PLAINTEXT://localhost:{inner}",
        "KAFKA_LISTENERS": f"CONTROLLER://:{spare},HOST://:{port},SASL_PLAINTEXT://:{inner}",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "SASL_PLAINTEXT",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
        "KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}",
    }
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "alice"}
    with container(tmp_path, environment) as (child, ready, log):
        until_ready(child, ready, log)
        assert brokers(port, sasl_password="alice-secret", **login) == {f"localhost:{port}"}
        with pytest.raises(KafkaException):
            brokers(port, 2, sasl_password="admin-secret", **login)


def test_bitnamis_users_log_in_by_plain_and_by_scram(tmp_path: Path) -> None:
    port, spare = free_ports(2)
    environment = {
        "KAFKA_CFG_NODE_ID": "0",
        "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
        "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
        "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CFG_LISTENERS": f"BROKER://:{port},CONTROLLER://:{spare}",
        "KAFKA_CFG_ADVERTISED_LISTENERS": f"BROKER://127.0.0.1:{port}",
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:SASL_PLAINTEXT,BROKER:SASL_PLAINTEXT",
        "KAFKA_CFG_SASL_MECHANISM_CONTROLLER_PROTOCOL": "PLAIN",
        "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_CFG_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
        "KAFKA_CLIENT_USERS": "user",
        "KAFKA_CLIENT_PASSWORDS": "password",
    }
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "user"}
    with container(tmp_path, environment) as (child, ready, log):
        until_ready(child, ready, log)
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            told = brokers(port, sasl_mechanism=mechanism, sasl_password="password", **login)
            assert told == {f"127.0.0.1:{port}"}
        with pytest.raises(KafkaException):
            brokers(port, 2, sasl_mechanism="PLAIN", sasl_password="bitnami", **login)


def test_stores_and_credentials_of_the_folder_of_secrets(tmp_path: Path) -> None:
    """As a whole path each stands for a name in /etc/kafka/secrets, where this machine has nothing."""
    (port,) = free_ports(1)
    authority = CA()
    trusted = load_pem_x509_certificate(authority.cert_pem.bytes())
    (tmp_path / "kafka.keystore.jks").write_bytes(pair(authority).pkcs12("abcdefgh"))
    (tmp_path / "kafka.truststore.jks").write_bytes(
        pkcs12.serialize_key_and_certificates(None, None, None, [trusted], BestAvailableEncryption(b"abcdefgh"))
    )
    (tmp_path / "creds").write_text("abcdefgh\n")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "client.pem").write_bytes(pair(authority).pem)
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": f"SSL://localhost:{port}",
        "KAFKA_SSL_KEYSTORE_FILENAME": str(tmp_path / "kafka.keystore.jks"),
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": str(tmp_path / "creds"),
        "KAFKA_SSL_KEY_CREDENTIALS": str(tmp_path / "creds"),
        "KAFKA_SSL_TRUSTSTORE_FILENAME": str(tmp_path / "kafka.truststore.jks"),
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": str(tmp_path / "creds"),
        "KAFKA_SSL_CLIENT_AUTH": "required",
    }
    with container(tmp_path, environment) as (child, ready, log):
        until_ready(child, ready, log)
        of_client = {name: str(tmp_path / "client.pem") for name in ("ssl_certificate_location", "ssl_key_location")}
        trust = {"security_protocol": "SSL", "ssl_ca_location": str(tmp_path / "ca.pem")}
        assert brokers(port, **trust, **of_client) == {f"localhost:{port}"}
        with pytest.raises(KafkaException):
            brokers(port, 2, **trust)


@pytest.mark.parametrize(
    ("environment", "mounted", "told"),
    [
        ({"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:{port}"}, None, "localhost:{port}"),
        ({}, "listeners=INSIDE://127.0.0.1:{spare},PLAINTEXT://127.0.0.1:{port}", "127.0.0.1:{port}"),
    ],
)
def test_clients_are_told_where_it_listens(
    environment: dict[str, str], mounted: str | None, told: str, tmp_path: Path
) -> None:
    port, spare = free_ports(2)
    values = {"port": port, "spare": spare}
    given = {name: value.format(**values) for name, value in environment.items()}
    given["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] = "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT"
    if mounted is not None:
        (tmp_path / "mounted").mkdir()
        (tmp_path / "mounted" / "server.properties").write_text(mounted.format(**values))
        given["KAFKA_MOUNTED_CONF_DIR"] = str(tmp_path / "mounted")
    with container(tmp_path, given) as (child, ready, log):
        until_ready(child, ready, log)
        assert brokers(port) == {told.format(**values)}


@pytest.mark.parametrize("http", ["0", "-1"], ids=["http", "http off"])
def test_a_controller_alone_starts_and_is_healthy(http: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    environment = APACHE_KRAFT | {
        "KAFKA_PROCESS_ROLES": "controller",
        "KAFKA_LISTENERS": f"CONTROLLER://:{port}",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@localhost:{port}",
        "KAFKA_ODRADEK_HTTP_PORT": http,
    }
    with container(tmp_path, environment) as (child, ready, log):
        told = until_ready(child, ready, log)
        found = healthcheck(tmp_path)
        assert (found.returncode, found.stderr) == (0, ""), told
