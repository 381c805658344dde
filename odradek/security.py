"""How clients come to the broker of a test: their configuration, with TLS, with a password, or with both."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek.starting import secret_file

KINDS = ("aiokafka", "confluent", "kafka-python", "java")
REFRESH_MS = 1_000
"""How often clients ask for topics and leaders, so that they see new ones soon."""
RETRY_MS = 20
"""How soon they try again: the broker is near, and nobody else waits for it."""

_OF_LIBRDKAFKA: dict[str, Any] = {
    "topic.metadata.refresh.interval.ms": REFRESH_MS,
    "retry.backoff.ms": RETRY_MS,
    "reconnect.backoff.ms": RETRY_MS,
    "reconnect.backoff.max.ms": 10 * RETRY_MS,
}
_OF_JAVA: dict[str, Any] = {
    "metadata.max.age.ms": REFRESH_MS,
    "retry.backoff.ms": RETRY_MS,
    "reconnect.backoff.ms": RETRY_MS,
    "reconnect.backoff.max.ms": 10 * RETRY_MS,
}
_SHARED: dict[str, dict[str, Any]] = {
    "aiokafka": {"metadata_max_age_ms": REFRESH_MS, "retry_backoff_ms": RETRY_MS},
    "confluent": _OF_LIBRDKAFKA,
    "kafka-python": {name.replace(".", "_"): value for name, value in _OF_JAVA.items()},
    "java": _OF_JAVA,
}


def client_config(bootstrap_servers: str, kind: str, **more: Any) -> dict[str, Any]:
    """Make the configuration of producers, consumers and admin clients of a kind; `more` is added.

    Raises ValueError for an unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"kind = {kind!r}: expected one of {', '.join(KINDS)}")
    separator = "_" if kind in ("aiokafka", "kafka-python") else "."
    return {f"bootstrap{separator}servers": bootstrap_servers, **_SHARED[kind], **more}


PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The SASL mechanisms for which a user's password serves."""

_COMMON_NAME = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

Users = Mapping[str, str] | Iterable[str]


def acl_settings(acls: Iterable[str]) -> dict[str, str]:
    """The settings of a broker on which these ACLs count. Raises ValueError for a text instead of a list of them."""
    if isinstance(acls, str):
        raise ValueError(f'acls = {acls!r}: expected a list, such as ["app READ TOPIC orders"]')
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "odradek.create.acls": "; ".join(acls),
    }


@dataclass(frozen=True, slots=True)
class Security:
    """The security of one broker, or of all of a cluster.

    Attributes:
        protocol: one of PROTOCOLS.
        users: passwords by name. With SSL each name has a certificate, and no password.
        folder: where the broker makes its certificates.
    """

    protocol: str
    users: Mapping[str, str]
    folder: Path

    @classmethod
    def chosen(
        cls, security: str | Security | None, users: Users | None, settings: Mapping[str, object], folder: Path
    ) -> Security | None:
        """Read the parameters `security` and `users`; None if they ask for nothing. Raises ValueError."""
        if isinstance(security, cls):
            return security
        if security is None:
            if users:
                raise ValueError("users: expected security='SASL_SSL' with them, or another of Kafka's protocols")
            return None
        if not users and security in ("SASL_SSL", "SASL_PLAINTEXT") and "sasl.enabled.mechanisms" not in settings:
            raise ValueError(f'security = {security!r}: expected users={{"name": "password"}} with it')
        return cls.of(str(security), users, folder)

    @classmethod
    def of(cls, protocol: str, users: Users | None, folder: Path) -> Security:
        """Raises ValueError for an unknown protocol, and for users that this protocol cannot have."""
        if protocol not in PROTOCOLS:
            raise ValueError(f"security = {protocol!r}: expected one of {', '.join(PROTOCOLS)}")
        if users and protocol == "PLAINTEXT":
            raise ValueError(f"users: expected none with security = {protocol!r}, which asks nobody who they are")
        if isinstance(users, str):
            raise ValueError(f'users = {users!r}: expected {{"name": "password"}}')
        if protocol == "SSL":
            return cls(protocol, dict.fromkeys(map(_checked_name, users or ()), ""), folder)
        if users and not isinstance(users, Mapping):
            raise ValueError(f'users: expected {{"name": "password"}} with security = {protocol!r}')
        pairs: Mapping[str, str] = users if isinstance(users, Mapping) else {}
        return cls(protocol, {_checked_name(name): _checked_password(name, pairs[name]) for name in pairs}, folder)

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def ca_file(self) -> Path:
        """The certificate that clients trust."""
        return self.folder / "ca.pem"

    def settings(self) -> dict[str, str]:
        """The broker's settings; its users are written to a file that only this user can read."""
        found = {"listeners": f"{self.protocol}://127.0.0.1:0"}
        if self.uses_tls:
            found["odradek.tls.folder"] = str(self.folder)
        if self.users and self.uses_sasl:
            lines = "".join(f"{name}:{password}\n" for name, password in self.users.items())
            found["odradek.users.file"] = str(secret_file(self.folder.parent, "users", lines))
        elif self.users:
            found |= {"ssl.client.auth": "required", "odradek.tls.clients": ",".join(self.users)}
            found["ssl.principal.mapping.rules"] = _COMMON_NAME
        return found

    def client_config(self, kind: str, user: str | None, mechanism: str | None) -> dict[str, Any]:
        """Make what clients of a kind need besides the address. Raises ValueError for an unknown user or mechanism."""
        name = self._user(user)
        certificate = self.certificate_of(name) if self.protocol == "SSL" and name is not None else None
        config: dict[str, Any] = {"security_protocol": self.protocol}
        if kind == "aiokafka" and self.uses_tls:
            config["ssl_context"] = self._context(certificate)
        elif self.uses_tls:
            config["ssl_cafile"] = str(self.ca_file)
            if certificate is not None:
                config |= {"ssl_certfile": str(certificate), "ssl_keyfile": str(certificate)}
        if self.uses_sasl and name is not None:
            config["sasl_mechanism"] = self._mechanism(mechanism)
            config |= {"sasl_plain_username": name, "sasl_plain_password": self.users[name]}
        elif mechanism is not None:
            raise ValueError(f"mechanism = {mechanism!r}: expected none, since security = {self.protocol!r}")
        return _AS_OTHERS_HAVE_IT.get(kind, dict)(config)

    def certificate_of(self, user: str) -> Path:
        """The file with the key and the certificate of a user, with SSL."""
        if user not in self.users or self.protocol != "SSL":
            raise ValueError(f"user = {user!r}: expected one of the users of a broker with security = 'SSL'")
        return self.folder / f"client-{user}.pem"

    def _user(self, user: str | None) -> str | None:
        """The first one, unless one is named."""
        if user is not None and user not in self.users:
            raise ValueError(f"user = {user!r}: expected one of {', '.join(self.users) or 'none: there are no users'}")
        return next(iter(self.users), None) if user is None else user

    def _mechanism(self, mechanism: str | None) -> str:
        if mechanism is not None and mechanism not in MECHANISMS:
            raise ValueError(f"mechanism = {mechanism!r}: expected one of {', '.join(MECHANISMS)}")
        return mechanism or MECHANISMS[0]

    def _context(self, certificate: Path | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name or name != name.strip() or ":" in name or name.startswith("#"):
        raise ValueError(f"users has {name!r}: expected a name, without a colon or spaces around it")
    return name


def _checked_password(name: str, password: object) -> str:
    if not isinstance(password, str) or not password or set("\r\n") & set(password):
        raise ValueError(f"users[{name!r}]: expected a password of at least one character, all on one line")
    return password


_LIBRDKAFKA = {
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
}


def _of_librdkafka(config: dict[str, Any]) -> dict[str, Any]:
    return {_LIBRDKAFKA.get(name, name.replace("_", ".")): value for name, value in config.items()}


def _of_java(config: dict[str, Any]) -> dict[str, Any]:
    found = {"security.protocol": config["security_protocol"]}
    if "ssl_cafile" in config:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": config["ssl_cafile"]}
    if "ssl_certfile" in config:
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": config["ssl_certfile"]}
    if mechanism := config.get("sasl_mechanism"):
        name, password = (_quoted(config[f"sasl_plain_{part}"]) for part in ("username", "password"))
        line = f"{_MODULES[mechanism]} required username={name} password={password};"
        found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": line}
    return found


def _quoted(text: str) -> str:
    """A value as a JAAS line has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_AS_OTHERS_HAVE_IT = {"confluent": _of_librdkafka, "java": _of_java}
"""How the names of aiokafka and kafka-python become those of other clients."""
