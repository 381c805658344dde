"""How clients are let in at the listeners of a node, and how that follows settings and files while the node runs.

What a change amounts to is made whole and checked in a worker thread before any connection uses it. If it is bad, the
change is refused, or for a file logged, and what was there stays. What a listener does not use is not imported.
"""

from __future__ import annotations

import os
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from broker.config.broker_config import BrokerConfig, CurrentConfig
from broker.config.listener_settings import CLIENTS, FOLDER, USERS_FILE, ListenerSettings, is_security
from broker.config.listeners import Listener
from broker.config.security_checks import KEY_FILES, security_problems
from broker.network.request import ANONYMOUS, USER, Principal, UnknownClientError
from broker.security.sources import SecurityError, Sources

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
        from broker.security.tls.principal_mapping import MOST_CHARACTERS, principal_name

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

        from broker.security.tls.principal_mapping import subject_of

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
        rules = parse_rules(settings.name_of(name), settings.text(name) or "DEFAULT")
    return Prepared(tls, certificate, rules, _sasl(settings, listener, sources, counted), stamps)


def _sasl(settings: ListenerSettings, listener: Listener, sources: Sources, counted: Counted) -> SaslOptions | None:
    if not listener.uses_sasl:
        return None
    from broker.security.sasl.authenticator import SaslOptions
    from broker.security.sasl.mechanisms import make_mechanisms

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


logger = structlog.get_logger(__name__)

CHECK_MS = 2_000
"""Time between two looks at the files."""
RENEWAL_MS = 24 * 3600 * 1000
"""Time between two looks whether certificates will soon expire."""
SOON_MS = 7 * 24 * 3600 * 1000


class NodeSecurity:
    """`listeners` has those with TLS or SASL, by name; `attempts` counts by listener, mechanism and success."""

    def __init__(self, current: CurrentConfig, sources: Sources, wheel: TimingWheel) -> None:
        self.listeners: dict[str, ListenerSecurity] = {}
        self.attempts: Counter[tuple[str, str, bool]] = Counter()
        self._current = current
        self._sources = sources
        self._wheel = wheel
        self._hosts: tuple[str, ...] | None = None  # None where no listener has TLS
        self._used: Mapping[str, str] = {}
        self._refused: dict[str, Mapping[str, Stamp]] = {}  # bad files, as they were when they were read

    async def open(self, listeners: Iterable[Listener], hosts: Iterable[str] = ()) -> None:
        """Make what the listeners need; `hosts` is where clients reach this node. Raises SecurityError."""
        config = self._current.config
        listeners = tuple(listeners)
        if any(listener.uses_tls for listener in listeners):
            self._hosts = *hosts, *(listener.host for listener in listeners)
        await self._make_certificates()
        for listener in listeners:
            if listener.uses_tls or listener.uses_sasl:
                prepared = await self._prepare(config, listener)
                self.listeners[listener.name] = ListenerSecurity(listener, prepared, self._sources.clock, self._wheel)
        self._used = _security_of(config)
        self._note_expiry(self.listeners.values())

    async def check(self, config: BrokerConfig) -> None:
        """Raises SecurityError if these settings cannot replace the present ones."""
        if _security_of(config) != self._used:
            for security in self.listeners.values():
                await self._checked(config, security)

    async def follow_settings(self) -> None:
        """Use the node's settings, if they have changed, for new connections."""
        wanted = _security_of(self._current.config)
        if wanted != self._used:
            self._used = wanted
            await self._renew(self.listeners.values(), "settings have changed")

    async def follow_files(self) -> None:
        """Look whether files have changed. A bad one is logged once, and the old one stays in use."""
        for name, security in self.listeners.items():
            before = security.prepared.stamps
            if not before:
                continue
            now = await self._sources.workers.call(lambda names=tuple(before): stamps_of(names))  # type: ignore[misc]
            if now != before and now != self._refused.get(name):
                self._refused[name] = now
                await self._renew([security], "a file has changed")

    async def renew_certificates(self) -> None:
        """Make those of our own anew that will soon expire (`follow_files` finds them), and warn of others."""
        try:
            await self._make_certificates()
        except SecurityError as error:
            logger.error("certificates cannot be renewed", error=str(error))
        self._note_expiry(self.listeners.values())

    def _note_expiry(self, securities: Iterable[ListenerSecurity]) -> None:
        now_ms = self._sources.clock.machine.wall_ms()
        for security in securities:
            certificate = security.prepared.certificate
            if certificate is None:
                continue
            end = certificate.not_valid_after_utc
            left_ms = end.timestamp() * 1000 - now_ms
            if left_ms < 0:
                logger.error(
                    "our certificate has expired: clients refuse it", listener=security.listener.name, end=str(end)
                )
            elif left_ms < SOON_MS:
                logger.warning("our certificate will soon expire", listener=security.listener.name, end=str(end))

    async def _renew(self, securities: Iterable[ListenerSecurity], reason: str) -> None:
        for security in securities:
            listener = security.listener.name
            try:
                security.prepared = await self._checked(self._current.config, security)
            except SecurityError as error:
                logger.error("new keys or users are refused", listener=listener, reason=reason, error=str(error))
            else:
                logger.info("keys and users were read again", listener=listener, reason=reason)
                self._note_expiry([security])

    async def _checked(self, config: BrokerConfig, security: ListenerSecurity) -> Prepared:
        """Return what a listener would use under `config`. Raises SecurityError if it cannot replace the old one."""
        problems = security_problems(config, [security.listener])
        if problems:
            raise SecurityError("; ".join(problems))
        prepared = await self._prepare(config, security.listener)
        old, new = security.prepared.certificate, prepared.certificate
        if old is not None and new is not None:
            from broker.security.tls.contexts import require_same_names

            require_same_names(ListenerSettings(config, security.listener.name), old, new)
        return prepared

    async def _prepare(self, config: BrokerConfig, listener: Listener) -> Prepared:
        return await self._sources.workers.call(lambda: prepare(config, listener, self._sources, self._count))

    async def _make_certificates(self) -> None:
        config, hosts = self._current.config, self._hosts
        folder, clients = config.optional_string(FOLDER), config.list_(CLIENTS)
        if folder is None or hosts is None:
            return
        from broker.security.tls.own_authority import make_certificates

        now_ms = self._sources.clock.machine.wall_ms()
        made = await self._sources.workers.call(lambda: make_certificates(folder, hosts, clients, now_ms))
        if made:
            logger.info("certificates were made", folder=folder, files=made)

    def counts(self) -> list[tuple[tuple[str, str, str], int]]:
        """How often clients of each listener were let in or refused, by mechanism and outcome."""
        return [
            ((listener, mechanism, "success" if success else "failure"), count)
            for (listener, mechanism, success), count in self.attempts.items()
        ]

    def _count(self, listener: str, mechanism: str, success: bool) -> None:
        self.attempts[listener, mechanism, success] += 1


def _security_of(config: BrokerConfig) -> dict[str, str]:
    """The settings that concern security."""
    return {name: text for name, text in config.given.items() if is_security(name)}
