"""Environments with security, written for the images of Apache, Confluent and Bitnami, and what they amount to."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config import image_variables
from broker.config.broker_config import ConfigurationError
from broker.config.listener_settings import ListenerSettings, parse_jaas
from broker.config.sources import Loaded, load

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
APACHE_SASL = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,HOST:SASL_PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "HOST://localhost:9094,SASL_PLAINTEXT://broker:19094",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_LISTENERS": "CONTROLLER://:29093,HOST://:9094,SASL_PLAINTEXT://:19094",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "SASL_PLAINTEXT",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
    "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
}
TLS = {
    "KAFKA_ADVERTISED_LISTENERS": "SSL://localhost:9093,INSIDE://broker:19093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SSL:SSL,INSIDE:SSL",
    "KAFKA_SSL_KEYSTORE_FILENAME": "kafka01.keystore.jks",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "kafka_keystore_creds",
    "KAFKA_SSL_KEY_CREDENTIALS": "kafka_ssl_key_creds",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "kafka.truststore.jks",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "kafka_truststore_creds",
    "KAFKA_SSL_CLIENT_AUTH": "required",
    "KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM": "",
}
BITNAMI = {
    "KAFKA_CFG_NODE_ID": "0",
    "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
    "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
    "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CFG_LISTENERS": "INSIDE://:9091,CLIENT://:9092,CONTROLLER://:9093",
    "KAFKA_CFG_ADVERTISED_LISTENERS": "INSIDE://kafka:9091,CLIENT://localhost:9092",
    "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:SASL_PLAINTEXT,CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "INSIDE",
    "KAFKA_CFG_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
    "KAFKA_CFG_SASL_MECHANISM_CONTROLLER_PROTOCOL": "PLAIN",
}
BITNAMI_TLS = {
    "KAFKA_CFG_LISTENERS": "SSL://:9092",
    "KAFKA_CFG_ADVERTISED_LISTENERS": "SSL://localhost:9092",
    "KAFKA_CERTIFICATE_PASSWORD": "certificate-secret",
}


def of(loaded: Loaded, listener: str) -> ListenerSettings:
    return ListenerSettings(loaded.config, listener)


def options(loaded: Loaded, listener: str, mechanism: str = "PLAIN") -> dict[str, str]:
    """Of the listener's login module."""
    line = of(loaded, listener).own("sasl.jaas.config", mechanism)
    return dict(parse_jaas(line).options) if line else {}


def problems(environ: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as raised:
        load(environ=environ)
    return raised.value.problems


def with_jaas(folder: Path, text: str, more: str = "") -> dict[str, str]:
    path = folder / "broker_jaas.conf"
    path.write_text(text)
    return APACHE_SASL | {"KAFKA_OPTS": f"-Djava.security.auth.login.config={path}{more}"}


# The JVM's JAAS file


def test_kafka_opts_name_the_jaas_file_whose_section_has_the_users(tmp_path: Path) -> None:
    text = f"""
    // of Apache's own example
    KafkaServer {{
        {PLAIN} required
        username="admin"
        password="admin-secret"
        user_admin="admin-secret"
        /* and a
           second one */
        user_alice="alice's \\"secret\\" with \\\\";
    }};
    KafkaClient {{ {PLAIN} required username="nobody" password="x"; }};
    """
    loaded = load(environ=with_jaas(tmp_path, text))
    assert loaded.warnings == ()
    for listener in ("HOST", "SASL_PLAINTEXT"):
        assert options(loaded, listener) == {
            "username": "admin",
            "password": "admin-secret",
            "user_admin": "admin-secret",
            "user_alice": 'alice\'s "secret" with \\',
        }
    assert options(loaded, "CONTROLLER") == {}


def test_a_jaas_file_does_not_count_beside_users_of_our_own_settings(tmp_path: Path) -> None:
    environ = with_jaas(tmp_path, f'KafkaServer {{ {PLAIN} required user_mallory="1"; }};')
    loaded = load(environ=environ | {"ODRADEK_USERS": "app:secret"})
    assert any("is not read, since odradek.users has the users" in line for line in loaded.warnings)
    assert not any("mallory" in value for value in loaded.config.given.values())


def test_a_section_of_the_jaas_file_that_names_the_listener_counts_for_it_alone(tmp_path: Path) -> None:
    text = f"""
    KafkaServer {{ {PLAIN} required user_all="1"; {SCRAM} required username="node" password="2"; }};
    host.KafkaServer {{ {PLAIN} required user_host="3"; }};
    """
    loaded = load(environ=with_jaas(tmp_path, text))
    assert options(loaded, "HOST") == {"user_host": "3"}
    assert options(loaded, "SASL_PLAINTEXT") == {"user_all": "1"}
    assert options(loaded, "SASL_PLAINTEXT", "SCRAM-SHA-512") == {"username": "node", "password": "2"}


def test_a_line_of_a_listener_wins_over_the_jaas_file(tmp_path: Path) -> None:
    environ = with_jaas(tmp_path, f'KafkaServer {{ {PLAIN} required user_file="1"; }};')
    environ["KAFKA_LISTENER_NAME_HOST_PLAIN_SASL_JAAS_CONFIG"] = f'{PLAIN} required user_line="2";'
    loaded = load(environ=environ)
    assert options(loaded, "HOST") == {"user_line": "2"}
    assert options(loaded, "SASL_PLAINTEXT") == {"user_file": "1"}


def test_a_jaas_file_has_system_properties_in_its_options(tmp_path: Path) -> None:
    text = f'KafkaServer {{ {PLAIN} required user_app="${{app.password}}"; }};'
    loaded = load(environ=with_jaas(tmp_path, text, " -Dapp.password=secret -Xmx1g"))
    assert options(loaded, "HOST") == {"user_app": "secret"}
    (problem,) = problems(with_jaas(tmp_path, text))
    assert "expected an option -Dapp.password=... of the JVM" in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("KafkaServer {", "expected each module of the section KafkaServer to end with a semicolon"),
        ("KafkaServer", "expected sections such as"),
        (f"KafkaServer {{ {PLAIN} required }};", "and a semicolon at the end"),
        (f"KafkaServer {{ {PLAIN}; }};", "and then one of required"),
        (f'KafkaServer {{ {PLAIN} required user_a="geheim"; }}', "expected a semicolon after the section KafkaServer"),
        (f'KafkaServer {{ {PLAIN} required user_a="geheim; }};', "expected every quotation mark"),
        (f"KafkaServer {{ {PLAIN} required; }}; KafkaServer {{ }};", "expected the section KafkaServer once"),
    ],
)
def test_a_jaas_file_that_cannot_be_read_stops_the_start_and_shows_no_password(
    text: str, expected: str, tmp_path: Path
) -> None:
    (problem,) = problems(with_jaas(tmp_path, text))
    assert expected in problem
    assert "broker_jaas.conf (from KAFKA_OPTS)" in problem
    assert "geheim" not in problem


def test_a_jaas_file_that_is_not_there_or_has_no_users_stops_the_start(tmp_path: Path) -> None:
    environ = with_jaas(tmp_path, "KafkaClient { };")
    assert all(".plain.sasl.jaas.config is not set: name the users" in problem for problem in problems(environ))
    (tmp_path / "broker_jaas.conf").unlink()
    (problem,) = problems(environ)
    assert "broker_jaas.conf cannot be read: No such file or directory" in problem


def test_kerberos_in_a_jaas_file_is_refused(tmp_path: Path) -> None:
    text = "KafkaServer { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; };"
    environ = with_jaas(tmp_path, text, " -Djava.security.krb5.conf=/etc/krb5.conf")
    environ["KAFKA_SASL_ENABLED_MECHANISMS"] = "GSSAPI"
    assert all("GSSAPI (Kerberos), which is not served" in problem for problem in problems(environ))
    environ["KAFKA_SASL_ENABLED_MECHANISMS"] = "SCRAM-SHA-256"
    warnings = load(environ=environ).warnings
    assert any("Krb5LoginModule cannot be run here" in warning for warning in warnings)
    assert any("-Djava.security.krb5.conf have no effect here" in warning for warning in warnings)


def test_without_sasl_the_jaas_file_is_not_read() -> None:
    environ = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere"}
    assert load(environ=environ).warnings == ()


# Backslashes, as in the properties file that the images write


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (f'{PLAIN} required \\\n      user_a="1" \\\r\n\tuser_b="2";\n', {"user_a": "1", "user_b": "2"}),
        (f'{PLAIN} required\n user_a="1";\n', {"user_a": "1"}),
        (f'{PLAIN} required user_a="\\\\"\\\\";', None),
        (f'{PLAIN} required user_a="\\u0061";', {"user_a": "a"}),
    ],
)
def test_a_jaas_line_of_the_environment_is_that_of_a_properties_file(value: str, meant: dict[str, str] | None) -> None:
    environ = {
        "KAFKA_ADVERTISED_LISTENERS": "SASL_PLAINTEXT://localhost:9092",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_PLAIN_SASL_JAAS_CONFIG": value,
    }
    if meant is None:
        assert "quotation mark" in problems(environ)[0]
    else:
        assert options(load(environ=environ), "SASL_PLAINTEXT") == meant


def test_a_wrong_escape_in_the_environment_names_the_variable() -> None:
    assert problems({"KAFKA_SUPER_USERS": "\\u12"}) == ("KAFKA_SUPER_USERS: malformed \\uxxxx",)


# Files of secrets


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("kafka_keystore_creds", "kafka_ssl_key_creds", "kafka_truststore_creds"):
        (tmp_path / name).write_text(f"{name}-secret\n")
    (tmp_path / "kafka.truststore.jks").touch()
    monkeypatch.setattr(image_variables, "SECRETS_FOLDER", str(tmp_path))
    return tmp_path


def test_file_names_and_credentials_in_the_folder_of_secrets(secrets: Path) -> None:
    loaded = load([("mounted", "ssl.keystore.location=/other")], TLS)
    assert loaded.warnings == ()
    settings = of(loaded, "INSIDE")
    assert settings.text("ssl.keystore.location") == str(secrets / "kafka01.keystore.jks")
    assert settings.text("ssl.keystore.password") == "kafka_keystore_creds-secret"
    assert settings.text("ssl.key.password") == "kafka_ssl_key_creds-secret"
    assert settings.text("ssl.truststore.location") == str(secrets / "kafka.truststore.jks")
    assert settings.text("ssl.truststore.password") == "kafka_truststore_creds-secret"
    assert settings.text("ssl.endpoint.identification.algorithm") is None
    loaded = load(environ=TLS, settings=["ssl.keystore.location=/given"])
    assert of(loaded, "SSL").text("ssl.keystore.location") == "/given"


def test_file_names_of_one_listener_give_way_to_its_settings(secrets: Path) -> None:
    environ = TLS | {
        "KAFKA_LISTENER_NAME_SSL_SSL_KEYSTORE_FILENAME": "other.jks",
        "KAFKA_LISTENER_NAME_SSL_SSL_KEYSTORE_CREDENTIALS": "kafka_ssl_key_creds",
        "KAFKA_LISTENER_NAME_INSIDE_SSL_KEYSTORE_FILENAME": "other.jks",
        "KAFKA_LISTENER_NAME_INSIDE_SSL_KEYSTORE_LOCATION": "/given",
    }
    loaded = load(environ=environ)
    assert loaded.warnings == ()
    assert of(loaded, "SSL").text("ssl.keystore.location") == str(secrets / "other.jks")
    assert of(loaded, "SSL").text("ssl.keystore.password") == "kafka_ssl_key_creds-secret"
    assert of(loaded, "INSIDE").text("ssl.keystore.location") == "/given"


def test_a_file_of_credentials_that_is_missing_stops_the_start(secrets: Path) -> None:
    (secrets / "kafka_ssl_key_creds").unlink()
    (problem,) = problems(TLS)
    assert problem.startswith(f"KAFKA_SSL_KEY_CREDENTIALS: {secrets}/kafka_ssl_key_creds cannot be read: No such file")


def test_a_truststore_that_nobody_asks_for_may_be_missing(secrets: Path) -> None:
    (secrets / "kafka.truststore.jks").unlink()
    (secrets / "kafka_truststore_creds").unlink()
    assert "kafka_truststore_creds" in problems(TLS)[0]
    loaded = load(environ={name: value for name, value in TLS.items() if name != "KAFKA_SSL_CLIENT_AUTH"})
    assert "ssl.truststore.location" not in loaded.config.given


# Bitnami's variables


def test_bitnamis_users_log_in_by_every_mechanism_and_are_not_the_controllers() -> None:
    given = {
        "KAFKA_CLIENT_USERS": "app, bob;carol",
        "KAFKA_CLIENT_PASSWORDS": "a-secret,b:secret;c",
        "KAFKA_INTER_BROKER_USER": "node",
        "KAFKA_INTER_BROKER_PASSWORD": "node-secret",
        "KAFKA_CONTROLLER_USER": "controller",
        "KAFKA_CONTROLLER_PASSWORD": "controller-secret",
    }
    loaded = load(environ=BITNAMI | given)
    assert loaded.warnings == ()
    clients = "app:a-secret\nbob:b:secret\ncarol:c"
    assert of(loaded, "CLIENT").text("odradek.users") == clients
    assert of(loaded, "INSIDE").text("odradek.users") == clients + "\nnode:node-secret"
    assert options(loaded, "INSIDE") == {"username": "node", "password": "node-secret"}
    assert of(loaded, "CONTROLLER").text("odradek.users") == "controller:controller-secret"
    assert of(loaded, "CONTROLLER").list_("sasl.enabled.mechanisms") == ("PLAIN",)
    assert of(loaded, "CLIENT").list_("sasl.enabled.mechanisms") == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def test_nobody_comes_to_the_controllers_with_the_password_that_bitnami_has_by_default() -> None:
    loaded = load(environ=BITNAMI | {"KAFKA_CLIENT_USERS": "app", "KAFKA_CLIENT_PASSWORDS": "secret"})
    assert options(loaded, "CONTROLLER") == {}
    assert of(loaded, "CONTROLLER").text("odradek.users") is None
    assert {problem.partition(" is not set")[0] for problem in problems(BITNAMI)} == {
        "listener.name.client.plain.sasl.jaas.config",
        "listener.name.inside.plain.sasl.jaas.config",
    }


def test_passwords_of_bitnamis_users_are_as_many_as_the_users() -> None:
    given = {"KAFKA_CLIENT_USERS": "app,bob", "KAFKA_CLIENT_PASSWORDS": "geheim"}
    assert problems(BITNAMI | given) == ("KAFKA_CLIENT_PASSWORDS: expected one for each of KAFKA_CLIENT_USERS",)


def test_bitnamis_passwords_may_be_in_files(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("a-secret\n")
    given = {"KAFKA_CLIENT_USERS": "app", "KAFKA_CLIENT_PASSWORDS_FILE": str(tmp_path / "passwords")}
    assert of(load(environ=BITNAMI | given), "CLIENT").text("odradek.users") == "app:a-secret"
    (tmp_path / "passwords").unlink()
    assert "passwords cannot be read" in problems(BITNAMI | given)[0]


def test_bitnamis_users_without_a_listener_for_them_are_told() -> None:
    given = {
        "KAFKA_CFG_LISTENERS": "PLAINTEXT://127.0.0.1:9092",
        "KAFKA_CLIENT_USERS": "a",
        "KAFKA_CLIENT_PASSWORDS": "b",
    }
    assert load(environ=given).warnings == ("KAFKA_CLIENT_USERS has no effect: no listener has SASL",)


def test_names_of_sasl_listeners_in_bitnamis_variables() -> None:
    environ = {
        "KAFKA_CFG_LISTENERS": "SASL_PLAINTEXT://127.0.0.1:9092",
        "KAFKA_CFG_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_CFG_LISTENER_NAME_SASL_PLAINTEXT_PLAIN_SASL_JAAS_CONFIG": f'{PLAIN} required user_a="1";',
    }
    assert options(load(environ=environ), "SASL_PLAINTEXT") == {"user_a": "1"}


def certificates(folder: Path, *names: str) -> dict[str, str]:
    (folder / "certs").mkdir()
    for name in names:
        (folder / "certs" / name).write_text(f"content of {name}")
    return BITNAMI_TLS | {"KAFKA_MOUNTED_CONF_DIR": str(folder)}


def test_bitnamis_stores_are_found_and_clients_need_a_certificate(tmp_path: Path) -> None:
    environ = certificates(tmp_path, "kafka.keystore.jks", "kafka.truststore.jks")
    loaded = load(environ=environ)
    settings = of(loaded, "SSL")
    assert settings.text("ssl.keystore.location") == str(tmp_path / "certs/kafka.keystore.jks")
    assert settings.text("ssl.truststore.location") == str(tmp_path / "certs/kafka.truststore.jks")
    for name in ("keystore", "key", "truststore"):
        assert settings.text(f"ssl.{name}.password") == "certificate-secret"
    assert settings.text("ssl.client.auth") == "required"
    environ |= {"KAFKA_TLS_CLIENT_AUTH": "requested", "KAFKA_TLS_SSL_CLIENT_AUTH": "none"}
    assert of(load(environ=environ), "SSL").text("ssl.client.auth") == "none"


def test_bitnamis_certificates_as_pem(tmp_path: Path) -> None:
    environ = certificates(tmp_path, "kafka.keystore.key", "kafka.keystore.pem")
    environ |= {"KAFKA_TLS_TYPE": "PEM", "KAFKA_TLS_TRUSTSTORE_FILE": "/elsewhere/ca.pem"}
    settings = of(load(environ=environ), "SSL")
    assert settings.text("ssl.keystore.key") == "content of kafka.keystore.key"
    assert settings.text("ssl.keystore.certificate.chain") == "content of kafka.keystore.pem"
    assert settings.text("ssl.truststore.location") == "/elsewhere/ca.pem"
    assert (settings.text("ssl.keystore.type"), settings.text("ssl.truststore.type")) == ("PEM", "PEM")


def test_bitnamis_certificates_that_are_missing_are_named(tmp_path: Path) -> None:
    environ = certificates(tmp_path, "kafka.keystore.pem")
    assert f"expected kafka.keystore.jks in /opt/bitnami/kafka/config/certs or {tmp_path}/certs" in problems(environ)[0]
    assert "expected kafka.keystore.key and" in problems(environ | {"KAFKA_TLS_TYPE": "PEM"})[0]
    assert problems(environ | {"KAFKA_TLS_TYPE": "P12"}) == ("KAFKA_TLS_TYPE = 'P12': expected JKS or PEM",)


def test_a_folder_that_is_formatted_needs_none_of_these_files() -> None:
    load(environ=APACHE_SASL | {"KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere"}, opens_listeners=False)
