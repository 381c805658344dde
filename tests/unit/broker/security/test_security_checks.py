"""Settings of TLS and SASL that cannot work are refused at the start, with a sentence that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.admin import doctor as commands
from broker.config.broker_config import BrokerConfig, ConfigurationError
from broker.config.listener_settings import ListenerSettings
from tests.unit.broker.config.loading import load_text

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KEYS = "ssl.keystore.type=PEM\nssl.keystore.location=/a.pem\n"
TLS = f"listeners=SSL://a:1\n{KEYS}"
SASL = "listeners=SASL_PLAINTEXT://a:1\n"
IN = "listener.name.sasl_plaintext"
CLAIMS = "sasl.oauthbearer.expected.audience=kafka\nsasl.oauthbearer.expected.issuer=https://idp"


def problems(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_text(text)
    return "\n".join(caught.value.problems)


@pytest.mark.parametrize(
    "text",
    [
        TLS,
        "listeners=SSL://a:1\nssl.keystore.location=/a.p12\nssl.keystore.password=x",
        "listeners=SSL://a:1\nssl.keystore.type=PEM\nssl.keystore.key=x\nssl.keystore.certificate.chain=y",
        f"{TLS}ssl.client.auth=required\nssl.truststore.type=PEM\nssl.truststore.location=/ca.pem",
        f"listeners=X://a:1\nlistener.security.protocol.map=X:SSL\n{KEYS.replace('ssl.', 'listener.name.x.ssl.')}",
        f'{SASL}sasl.enabled.mechanisms=PLAIN\n{IN}.plain.sasl.jaas.config={PLAIN} required user_a="b";',
        f"{SASL}{IN}.sasl.enabled.mechanisms=PLAIN\nodradek.users.file=/users",
        f"{SASL}sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
        f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER\n{IN}.oauthbearer.sasl.jaas.config={OAUTH} required;",
        f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER\nsasl.oauthbearer.jwks.endpoint.url=https://idp/keys\n{CLAIMS}",
        f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER\nsasl.oauthbearer.jwks.endpoint.url=https://idp/keys\n"
        "sasl.oauthbearer.allow.unverified.audience=true\nsasl.oauthbearer.allow.unverified.issuer=true",
    ],
)
def test_what_can_work(text: str) -> None:
    assert load_text(text).warnings == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("listeners=SSL://a:1", "listener.name.ssl.ssl.keystore.location is not set"),
        (f"{TLS}ssl.keystore.type=BKS", "ssl.keystore.type = 'BKS': expected PEM, PKCS12 or JKS"),
        (f"{TLS}ssl.keystore.key=x\nssl.keystore.certificate.chain=y", "this or ssl.keystore.location, not both"),
        ("listeners=SSL://a:1\nssl.keystore.key=x", "certificate.chain is not set"),
        (
            "listeners=SSL://a:1\nssl.keystore.key=x\nssl.keystore.certificate.chain=y",
            "ssl.keystore.key: expected ssl.keystore.type=PEM with it",
        ),
        (f"{TLS}ssl.client.auth=requested", "ssl.truststore.location is not set: ssl.client.auth needs"),
        (f"{TLS}ssl.truststore.location=/a\nssl.truststore.certificates=x", "this or ssl.truststore.location"),
        (f"{TLS}ssl.truststore.certificates=x", "expected ssl.truststore.type=PEM"),
        (f"{TLS}ssl.enabled.protocols=TLSv1,TLSv1.2", "expected one or both of TLSv1.2 and TLSv1.3"),
        (f"{TLS}ssl.client.auth=perhaps", "ssl.client.auth = 'perhaps' (from server.properties)"),
        (f"{TLS}listener.name.ssl.ssl.client.auth=perhaps", "listener.name.ssl.ssl.client.auth = 'perhaps'"),
        (f"{TLS}principal.builder.class=a.B", "principal.builder.class = 'a.B': expected none"),
        (f"{TLS}listener.name.ssl.ssl.engine.factory.class=a.B", "ssl.engine.factory.class = 'a.B': expected none"),
        (SASL, "GSSAPI (Kerberos), which is not served: set it to one or more of PLAIN"),
        (f"{SASL}sasl.enabled.mechanisms=plain", "expected one or more of PLAIN, SCRAM-SHA-256"),
        (f"{SASL}sasl.enabled.mechanisms=", "is empty"),
        (f"{SASL}sasl.enabled.mechanisms=PLAIN", f"{IN}.plain.sasl.jaas.config is not set: name the users"),
        (
            f"{SASL}sasl.enabled.mechanisms=PLAIN\n{IN}.plain.sasl.jaas.config={OAUTH} required;",
            f"names the login module {OAUTH}: expected {PLAIN}",
        ),
        (f"{SASL}sasl.enabled.mechanisms=PLAIN\n{IN}.plain.sasl.jaas.config=geheim", "[hidden]: expected a line"),
        (f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER", "expected the URL of the keys"),
        (
            f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER\nsasl.oauthbearer.jwks.endpoint.url=ldap://x",
            "expected an https, http or file URL",
        ),
        (
            f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER\nsasl.oauthbearer.jwks.endpoint.url=file:///keys\n"
            "sasl.oauthbearer.expected.issuer=https://idp",
            "expected.audience is not set: expected the audience that tokens name, or "
            "sasl.oauthbearer.allow.unverified.audience=true",
        ),
        (
            f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER\nsasl.oauthbearer.jwks.endpoint.url=file:///keys\n"
            "sasl.oauthbearer.expected.audience=kafka",
            "expected.issuer is not set",
        ),
        (
            f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER\n{IN}.oauthbearer.sasl.server.callback.handler.class=a.B",
            "'a.B': expected org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        ),
        (
            f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER\n{IN}.oauthbearer.sasl.jaas.config={OAUTH} required;\n"
            f"{IN}.oauthbearer.sasl.server.callback.handler.class="
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
            "jwks.endpoint.url is not set",
        ),
        (
            f"{SASL}sasl.enabled.mechanisms=SCRAM-SHA-256\nsasl.server.max.receive.size=0",
            "max.receive.size = 0: expected at least 1",
        ),
    ],
)
def test_what_cannot_work(text: str, complaint: str) -> None:
    said = problems(text)
    assert complaint in said
    assert "geheim" not in said


def test_the_most_particular_setting_counts() -> None:
    config = BrokerConfig.of(
        {
            "connections.max.reauth.ms": "1",
            "listener.name.a.connections.max.reauth.ms": "2",
            "listener.name.a.plain.connections.max.reauth.ms": "3",
        }
    )

    def value(listener: str, mechanism: str) -> int:
        return ListenerSettings(config, listener).integer("connections.max.reauth.ms", mechanism)

    assert [value("A", "PLAIN"), value("A", "OAUTHBEARER"), value("B", "PLAIN")] == [3, 2, 1]


def test_a_setting_of_a_listener_that_is_not_there_warns() -> None:
    assert load_text("listener.name.x.ssl.keystore.type=PEM").warnings == (
        "listener.name.x.ssl.keystore.type (from server.properties) has no effect: no listener is named x",
    )


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o604, 0o644])
@pytest.mark.parametrize(
    ("setting", "content", "is_secret"),
    [
        ("odradek.users.file", "anna:secret\n", True),
        ("ssl.keystore.location", "-----BEGIN PRIVATE KEY-----\n", True),
        ("listener.name.sasl_plaintext.ssl.keystore.location", "-----BEGIN EC PRIVATE KEY-----\n", True),
        ("ssl.keystore.location", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n", False),
        ("ssl.keystore.location", "-----BEGIN CERTIFICATE-----\n", False),
    ],
)
def test_a_secret_that_everybody_can_read_is_said_at_the_start_and_by_doctor(
    tmp_path: Path, setting: str, content: str, is_secret: bool, mode: int
) -> None:
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(mode)
    assigned = [
        f"{setting}={path}",
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
    ]
    expected = [True] if is_secret and mode & 0o004 else []
    assert [str(path) in line and "chmod" in line for line in load_text("", settings=assigned).warnings] == expected
    options = [part for one in assigned for part in ("--set", one)]
    said = CliRunner().invoke(commands.main, [*options, "--set", f"log.dirs={tmp_path}"]).output
    assert ("every user of this machine can read this secret" in said) == bool(expected)


def test_a_file_that_is_not_there_is_no_secret(tmp_path: Path) -> None:
    assert load_text(f"{SASL}{IN}.sasl.enabled.mechanisms=PLAIN\nodradek.users.file={tmp_path}/none").warnings == ()
