"""What both brokers are told, and their certificates and users."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.x509 import NameAttribute
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from trustme import CA

from tests.certificates import Pair, pair, pair_of

SECRETS = {"alice": "alice-secret", "Ünï": "pässword"}
"""The users of PLAIN."""
BOB, EVE, DAN = "bob", "eve=,x", "dan"
"""Users of SCRAM: the first of SCRAM-SHA-256, the others of SCRAM-SHA-512. kafka-python cannot send EVE's name."""
SCRAM_PASSWORD = "scram-secret"
REAUTH_MS = 1_500
LISTENERS = {
    "SASL": "SASL_PLAINTEXT",
    "AGAIN": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "BOTH": "SASL_SSL",
}
"""AGAIN has sessions that end, MUTUAL wants certificates, TLS takes them."""

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

PLAIN_NAME = x509.Name(
    [NameAttribute(NameOID.ORGANIZATION_NAME, "Odradek"), NameAttribute(NameOID.COMMON_NAME, "alice")]
)
ODD_NAME = x509.Name(
    [
        NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        NameAttribute(NameOID.ORGANIZATION_NAME, 'A, B + "C" <D>; E=F\\G'),
        NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "# Zoë "),
        NameAttribute(NameOID.EMAIL_ADDRESS, "z@example.com"),
        NameAttribute(NameOID.TITLE, "Dr"),
        NameAttribute(NameOID.DOMAIN_COMPONENT, "example", _ASN1Type.IA5String),
        NameAttribute(NameOID.COMMON_NAME, "zoe"),
    ]
)


@dataclass(slots=True)
class Certificates:
    """Written to a folder for the broker; the clients' stay in memory."""

    folder: Path
    ca: CA = field(default_factory=CA)
    other_ca: CA = field(default_factory=CA)
    clients: dict[str, Pair] = field(init=False)

    def __post_init__(self) -> None:
        (self.folder / "broker.pem").write_bytes(pair(self.ca).pem)
        (self.folder / "ca.pem").write_bytes(self.ca.cert_pem.bytes())
        self.clients = {
            "alice": pair_of(self.ca, PLAIN_NAME),
            "zoe": pair_of(self.ca, ODD_NAME),
            "expired": pair_of(self.ca, PLAIN_NAME, expired=True),
            "unknown authority": pair_of(self.other_ca, PLAIN_NAME),
        }

    def settings(self) -> dict[str, str]:
        """Everything but the addresses."""
        users = " ".join(f'user_{name}="{password}"' for name, password in SECRETS.items())
        settings = {
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}"
                for name, protocol in {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **LISTENERS}.items()
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.folder / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
            "listener.name.tls.ssl.client.auth": "requested",
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.again.connections.max.reauth.ms": str(REAUTH_MS),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        }
        for name, protocol in LISTENERS.items():
            if protocol.startswith("SASL"):
                prefix = f"listener.name.{name.lower()}"
                settings[f"{prefix}.plain.sasl.jaas.config"] = f"{_PLAIN} required {users};"
                settings[f"{prefix}.scram-sha-256.sasl.jaas.config"] = f"{_SCRAM} required;"
                settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = f"{_SCRAM} required;"
                settings[f"{prefix}.oauthbearer.sasl.jaas.config"] = f"{_OAUTH} required;"
        return settings


def add_scram_users(bootstrap: str) -> None:
    """Give the users of SCRAM their credentials, through a listener that asks for none."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for user in (BOB, EVE, DAN):
        mechanism = ScramMechanism.SCRAM_SHA_256 if user == BOB else ScramMechanism.SCRAM_SHA_512
        new = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), SCRAM_PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([new]).values():
            done.result(10)
