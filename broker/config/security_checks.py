"""Mistakes in the settings of listeners with TLS or SASL, before any file of theirs is read.

Every line names the setting as it is to be written, and says what to do.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from broker.config.broker_config import BrokerConfig
from broker.config.listener_settings import (
    MODULES,
    PREFIX,
    USERS,
    USERS_FILE,
    JaasError,
    ListenerSettings,
    parse_jaas,
    wrong_values,
)
from broker.config.listeners import Listener

TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
KEY_FILES = ("tls.key", "tls.crt")
"""What a folder in place of a PEM keystore has, as Kubernetes mounts a Secret of the type kubernetes.io/tls."""
_STORE_TYPES = (PEM, PKCS12, JKS)

_VALIDATORS = "org.apache.kafka.common.security.oauthbearer."
_PLUG_INS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ssl.engine.factory.class": (),
        "principal.builder.class": ("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",),
        "sasl.oauthbearer.jwt.validator.class": (
            _VALIDATORS + "DefaultJwtValidator",
            _VALIDATORS + "BrokerJwtValidator",
        ),
    }
)
"""Classes of Java's that decide who clients are, with those of Kafka's that do what is done here."""
UNSECURED_HANDLER = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
VALIDATOR_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
PLAIN_HANDLER = "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler"


def security_problems(config: BrokerConfig, listeners: Iterable[Listener]) -> list[str]:
    """A line for each fault; empty if the listeners can be opened as far as can be seen here."""
    listeners = tuple(listeners)
    problems = wrong_values(config, tuple(listener.name for listener in listeners))
    if problems:
        return problems
    problems += _plug_ins(config, [listener.name for listener in listeners])
    for listener in listeners:
        settings = ListenerSettings(config, listener.name)
        if listener.uses_tls:
            problems += _tls(settings)
        if listener.uses_sasl:
            problems += _sasl(settings)
    return list(dict.fromkeys(problems))


def readable_secrets(config: BrokerConfig) -> Iterator[str]:
    """A line for each file with passwords, or with a key that no password protects, that everybody here may read."""
    for key, location in config.given.items():
        has_users = key == USERS_FILE
        if not has_users and not key.endswith("ssl.keystore.location"):
            continue
        path = Path(location.strip())
        try:
            is_open = path.is_file() and path.stat().st_mode & stat.S_IROTH and (has_users or _has_key(path))
        except OSError:
            continue  # whoever needs the file says what is wrong with it
        if is_open:
            yield f"{key} = {location!r}: every user of this machine can read this secret: chmod o-rwx the file"


def _has_key(path: Path) -> bool:
    return re.search(rb"-----BEGIN (?!ENCRYPTED)([A-Z]+ )?PRIVATE KEY-----", path.read_bytes()) is not None


def _plug_ins(config: BrokerConfig, listener_names: Iterable[str]) -> Iterator[str]:
    """Check that no class of Java's decides who clients are: to go on without it would let others in."""
    prefixes = tuple(f"{PREFIX}{name.lower()}." for name in listener_names)
    for key, given in config.given.items():
        rest = key.removeprefix(next((prefix for prefix in prefixes if key.startswith(prefix)), ""))
        known = next((_PLUG_INS[name] for name in (rest, rest.partition(".")[2]) if name in _PLUG_INS), None)
        if known is not None and given.strip() not in ("", *known):
            yield f"{key} = {given!r}: expected none, since no class of Java's can be run here"


def _tls(settings: ListenerSettings) -> Iterator[str]:
    yield from _keystore(settings)
    yield from _store_type(settings, "ssl.truststore")
    inline, location = settings.text("ssl.truststore.certificates"), settings.text("ssl.truststore.location")
    if inline and location:
        yield f"{settings.name_of('ssl.truststore.certificates')}: expected this or ssl.truststore.location, not both"
    elif settings.text("ssl.client.auth") != "none" and not (inline or location):
        key = settings.key("ssl.truststore.location")
        yield f"{key} is not set: ssl.client.auth needs the certificates that clients' certificates must lead to"
    elif inline and _type_of(settings, "ssl.truststore") != PEM:
        yield f"{settings.name_of('ssl.truststore.certificates')}: expected ssl.truststore.type=PEM with it"
    versions = settings.list_("ssl.enabled.protocols")
    if not versions or not {*versions} <= {*TLS_VERSIONS}:
        shown, known = ",".join(versions), " and ".join(TLS_VERSIONS)
        yield f"{settings.name_of('ssl.enabled.protocols')} = {shown!r}: expected one or both of {known}"


def _keystore(settings: ListenerSettings) -> Iterator[str]:
    yield from _store_type(settings, "ssl.keystore")
    location, key = settings.text("ssl.keystore.location"), settings.text("ssl.keystore.key")
    chain = settings.text("ssl.keystore.certificate.chain")
    if location and key:
        yield f"{settings.name_of('ssl.keystore.key')}: expected this or ssl.keystore.location, not both"
    elif key and not chain:
        yield f"{settings.key('ssl.keystore.certificate.chain')} is not set: ssl.keystore.key needs its certificate"
    elif key and _type_of(settings, "ssl.keystore") != PEM:
        yield f"{settings.name_of('ssl.keystore.key')}: expected ssl.keystore.type=PEM with it"
    elif not location and not key:
        yield (
            f"{settings.key('ssl.keystore.location')} is not set: the listener {settings.listener} needs a private key "
            "and a certificate (with ssl.keystore.type=PEM: one file with both)"
        )


def _type_of(settings: ListenerSettings, store: str) -> str:
    return (settings.text(f"{store}.type") or JKS).upper()


def _store_type(settings: ListenerSettings, store: str) -> Iterator[str]:
    kind = _type_of(settings, store)
    if kind not in _STORE_TYPES:
        yield f"{settings.name_of(f'{store}.type')} = {kind!r}: expected PEM, PKCS12 or JKS"


def _sasl(settings: ListenerSettings) -> Iterator[str]:
    key = settings.name_of("sasl.enabled.mechanisms")
    mechanisms = settings.list_("sasl.enabled.mechanisms")
    served = ", ".join(MODULES)
    if not mechanisms:
        yield f"{key} is empty: expected one or more of {served}"
    for mechanism in mechanisms:
        if mechanism == "GSSAPI":
            yield f"{key} has GSSAPI (Kerberos), which is not served: set it to one or more of {served}"
        elif mechanism not in MODULES:
            yield f"{key} = {','.join(mechanisms)!r}: expected one or more of {served}"
        else:
            yield from _mechanism(settings, mechanism)
    size = settings.integer("sasl.server.max.receive.size")
    if size < 1:
        yield f"{settings.name_of('sasl.server.max.receive.size')} = {size}: expected at least 1"


def _mechanism(settings: ListenerSettings, mechanism: str) -> Iterator[str]:
    key = settings.key("sasl.jaas.config", mechanism)
    line = settings.own("sasl.jaas.config", mechanism)
    if line:
        try:
            module = parse_jaas(line)
        except JaasError as error:
            yield f"{key} = [hidden]: {error}"
            return
        if module.name != MODULES[mechanism]:
            yield f"{key} names the login module {module.name}: expected {MODULES[mechanism]}"
    elif mechanism == "PLAIN" and not (settings.text(USERS_FILE) or settings.text(USERS)):
        yield (
            f'{key} is not set: name the users, as {MODULES[mechanism]} required user_alice="her password"; '
            f"or set {USERS_FILE}"
        )
    yield from _handler(settings, mechanism, has_line=bool(line))


def _handler(settings: ListenerSettings, mechanism: str, *, has_line: bool) -> Iterator[str]:
    key = settings.name_of("sasl.server.callback.handler.class", mechanism)
    handler = settings.text("sasl.server.callback.handler.class", mechanism)
    if mechanism == "PLAIN" and handler not in (None, PLAIN_HANDLER, *VALIDATOR_HANDLERS):
        yield f"{key} = {handler!r}: expected none, since no class of Java's can be run here"
    if mechanism != "OAUTHBEARER":
        return
    url_key = settings.key("sasl.oauthbearer.jwks.endpoint.url", mechanism)
    url = settings.text("sasl.oauthbearer.jwks.endpoint.url", mechanism)
    if handler not in (None, UNSECURED_HANDLER, *VALIDATOR_HANDLERS):
        yield f"{key} = {handler!r}: expected {VALIDATOR_HANDLERS[0]}, or none"
    elif url and not url.startswith(("https://", "http://", "file:")):
        yield f"{url_key} = {url!r}: expected an https, http or file URL"
    elif url:
        yield from _expected_claims(settings, mechanism)
    elif handler in VALIDATOR_HANDLERS:
        yield f"{url_key} is not set: expected the URL of the keys that tokens are signed with"
    elif not has_line:
        yield (
            f"{url_key} is not set: expected the URL of the keys that tokens are signed with. For tests, "
            f"{settings.key('sasl.jaas.config', mechanism)}={MODULES[mechanism]} required; takes unsigned tokens"
        )


def _expected_claims(settings: ListenerSettings, mechanism: str) -> Iterator[str]:
    """As of Kafka 4.4: who takes tokens of any issuer, or for any audience, must say so."""
    for claim in ("audience", "issuer"):
        expected = f"sasl.oauthbearer.expected.{claim}"
        allowed = f"sasl.oauthbearer.allow.unverified.{claim}"
        given = settings.list_(expected, mechanism) if claim == "audience" else settings.text(expected, mechanism)
        if not given and not settings.boolean(allowed, mechanism):
            yield (
                f"{settings.key(expected, mechanism)} is not set: expected the {claim} that tokens name, or {allowed}="
                "true to take any"
            )
