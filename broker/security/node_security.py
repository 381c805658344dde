"""The security of all listeners of a node, and how it follows settings and files while the node runs.

What a change amounts to is made whole and checked in a worker thread before any connection uses it. If it is bad, the
change is refused, or for a file logged, and what was there stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import structlog

from broker.config.broker_config import BrokerConfig, CurrentConfig
from broker.config.listener_settings import CLIENTS, FOLDER, ListenerSettings, is_security
from broker.config.listeners import Listener
from broker.config.security_checks import security_problems
from broker.security.errors import SecurityError
from broker.security.listener_security import ListenerSecurity, Prepared, Stamp, prepare, stamps_of
from broker.security.sasl.mechanisms import Sources

if TYPE_CHECKING:
    from timing.wheel import TimingWheel

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
        """What a listener would use under `config`. Raises SecurityError if that cannot replace what it uses now."""
        problems = security_problems(config, [security.listener])
        if problems:
            raise SecurityError("; ".join(problems))
        prepared = await self._prepare(config, security.listener)
        old, new = security.prepared.certificate, prepared.certificate
        if old is not None and new is not None:
            from broker.security.tls.replacement import require_same_names

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
