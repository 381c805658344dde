"""How the clients of one listener are let in: made of its settings and files, and made anew when these change."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.config.broker_config import BrokerConfig
from broker.config.listener_settings import USERS_FILE, ListenerSettings
from broker.config.listeners import Listener
from broker.config.security_checks import KEY_FILES
from broker.network.request import ANONYMOUS, USER, Principal, UnknownClientError
from broker.security.errors import SecurityError
from broker.security.sasl.mechanisms import Sources, make_mechanisms

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from broker.network.dispatch import Dispatcher
    from broker.security.sasl.authenticator import SaslAuthenticator, SaslOptions
    from broker.security.tls.principal_mapping import Rule
    from timing.clock import Clock
    from timing.wheel import TimingWheel

Counted = Callable[[str, str, bool], None]
"""Called with the listener, the mechanism, and whether a client was let in."""

Stamp = tuple[int, int, int] | None
"""What of a file changes with its content: inode, size and time; None if it cannot be looked at."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that new connections of a listener use, whole and checked.

    Attributes:
        certificate: the broker's own, None without TLS.
        stamps: the files that it was made of, as they were before they were read.
    """

    tls: ssl.SSLContext | None
    certificate: Certificate | None
    rules: tuple[Rule, ...]
    sasl: SaslOptions | None
    stamps: dict[str, Stamp]


class ListenerSecurity:
    """See `broker.network.ports.Secures`."""

    def __init__(self, listener: Listener, prepared: Prepared, clock: Clock, wheel: TimingWheel) -> None:
        self.listener = listener
        self.prepared = prepared
        self._clock = clock
        self._wheel = wheel

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self.prepared.tls

    @property
    def max_frame_bytes(self) -> int | None:
        sasl = self.prepared.sasl
        return None if sasl is None else sasl.largest_request

    def check_certificate(self, certificate: bytes | None) -> None:
        if certificate is not None:
            self._subject_of(certificate)

    def principal_of(self, certificate: bytes | None) -> Principal:
        if certificate is None:
            return ANONYMOUS
        from broker.security.tls.distinguished_names import MOST_CHARACTERS
        from broker.security.tls.principal_mapping import principal_name

        subject = self._subject_of(certificate)
        if len(subject) > MOST_CHARACTERS:
            raise UnknownClientError(f"the name in the client's certificate has more than {MOST_CHARACTERS} characters")
        name = principal_name(self.prepared.rules, subject)
        if name is None:
            raise UnknownClientError("no rule of ssl.principal.mapping.rules fits the name in the client's certificate")
        return Principal(USER, name)

    def _subject_of(self, certificate: bytes) -> str:
        """The subject's distinguished name. Raises UnknownClientError, also for a certificate that has expired."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.x509 import InvalidVersion, load_der_x509_certificate

        from broker.security.tls.distinguished_names import subject_of

        try:
            found = load_der_x509_certificate(certificate)
            subject, end = subject_of(found), found.not_valid_after_utc
        except (ValueError, TypeError, UnsupportedAlgorithm, InvalidVersion) as error:  # OpenSSL lets more through
            raise UnknownClientError(f"the name in the client's certificate cannot be read: {error}") from error
        if end.timestamp() * 1000 < self._clock.machine.wall_ms():  # OpenSSL does not look when a session is resumed
            raise UnknownClientError("the client's certificate: certificate has expired")
        return subject

    def gate(self, dispatcher: Dispatcher) -> SaslAuthenticator | None:
        sasl = self.prepared.sasl
        if sasl is None:
            return None
        from broker.security.sasl.authenticator import SaslAuthenticator

        return SaslAuthenticator(dispatcher, sasl, self._clock, self._wheel)


def prepare(config: BrokerConfig, listener: Listener, sources: Sources, counted: Counted) -> Prepared:
    """All that new connections of a listener use, by its settings and files.

    Blocking, any thread. Raises SecurityError.
    """
    settings = ListenerSettings(config, listener.name)
    stamps = stamps_of(_files(settings, listener))
    tls: ssl.SSLContext | None = None
    certificate: Certificate | None = None
    rules: tuple[Rule, ...] = ()
    if listener.uses_tls:
        from broker.security.tls.contexts import server_context
        from broker.security.tls.principal_mapping import parse_rules
        from broker.security.tls.stores import load_key

        key = load_key(settings)
        if key is None:
            raise SecurityError(f"{settings.key('ssl.keystore.location')} is not set")
        tls, certificate = server_context(settings, key), key.certificate
        name = "ssl.principal.mapping.rules"
        rules = parse_rules(settings.found(name), settings.text(name) or "DEFAULT")
    return Prepared(tls, certificate, rules, _sasl(settings, listener, sources, counted), stamps)


def _sasl(settings: ListenerSettings, listener: Listener, sources: Sources, counted: Counted) -> SaslOptions | None:
    if not listener.uses_sasl:
        return None
    from broker.security.sasl.authenticator import SaslOptions

    mechanisms = make_mechanisms(settings, sources)
    return SaslOptions(
        mechanisms,
        {name: settings.integer("connections.max.reauth.ms", name) for name in mechanisms},
        settings.integer("connection.failed.authentication.delay.ms"),
        settings.integer("sasl.server.max.receive.size"),
        lambda mechanism, success: counted(listener.name, mechanism, success),
    )


def _files(settings: ListenerSettings, listener: Listener) -> list[str]:
    names = ["ssl.keystore.location", "ssl.truststore.location"] if listener.uses_tls else []
    names += [USERS_FILE] if listener.uses_sasl else []
    locations = [location for name in names if (location := settings.text(name))]
    in_folders = [os.path.join(folder, name) for folder in locations if os.path.isdir(folder) for name in KEY_FILES]
    return locations + in_folders


def stamps_of(names: Iterable[str]) -> dict[str, Stamp]:
    """When these files were last changed. Blocking, any thread."""
    return {name: _stamp(name) for name in names}


def _stamp(name: str) -> Stamp:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
