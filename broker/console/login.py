"""Who uses the console: where clients have to say who they are, its users log in with the same names and passwords.

A password is compared with what the listeners with SASL know (`broker.passwords`). Whose password has been changed or
taken away has to log in again. Where clients authenticate by certificates or tokens alone, or there is only an
authorizer, nobody can log in.

ACLs have hosts in them, and guesses at passwords are counted by address: so no address is guessed. Where proxies stand
between the browser and this node (`odradek.http.trusted.proxies`), a header that any stranger can send is believed only
from a proxy that is trusted, and nobody can say who is behind another one.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from aiohttp import web

from broker.config.structured import Network
from broker.console.ask import Rights
from broker.http.hosts import FOR, OF_PROXIES, PROTO
from broker.network.request import Principal
from broker.node import Node
from broker.passwords import Passwords
from broker.security.permissions import Permissions
from broker.testkit.control.endpoint import ControlError
from protocol.java_strings import java_address

REFUSAL_MS = 1000.0
"""How long a refusal takes, whatever was looked at: guessing is slow, and does not tell which names there are."""

MOST_AT_ONCE, MOST_AT_ONCE_OF_USER = 10, 3
"""Logins at one time from one address, and of one user from there: each costs milliseconds of a thread."""

MOST_SESSIONS, MOST_SESSIONS_THERE = 100, 10
"""Sessions of one user, and of one user from one address: with one more, the oldest of them ends."""


class Session(NamedTuple):
    """`credential` is the one that the user logged in with; the session is over when it is another or gone."""

    principal: Principal
    address: str
    ends_ms: float
    credential: object


class Logins:
    """The sessions of the console, by a random token that the browser keeps in a cookie.

    What is counted is counted by user and address: nobody can keep others from logging in, or log them out.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._passwords = Passwords(node)
        self._sessions: dict[str, Session] = {}  # the newest at the end
        self._tokens: dict[str, list[str]] = {}  # by user, the newest at the end
        self._running: Counter[tuple[str, str]] = Counter()  # by address and user

    @property
    def required(self) -> bool:
        """Whether nobody sees anything without a login."""
        return self._passwords.required

    @property
    def users(self) -> bool:
        """Whether there is a listener whose users have passwords."""
        return self._passwords.users

    def rights(self, token: str | None, host: str) -> Rights | None:
        """What the user of this session may do; None if there is no such session, and there has to be one."""
        if not self.required:
            return Rights()
        session = self._sessions.get(token or "")
        if session is None or session.ends_ms < self._node.clock.machine.monotonic_ms():
            return None
        if self._passwords.credential(session.principal.name) != session.credential:
            self.end(token)
            return None
        authorizer, principal = self._node.base.authorizer, session.principal
        permissions = None if authorizer is None else Permissions(authorizer, principal, host)
        return Rights(str(principal), permissions, principal)

    async def begin(self, user: str, password: str, address: str) -> str | None:
        """The token of a new session; None if the name or the password is wrong. Raises ControlError."""
        of_address = sum(number for (where, _), number in self._running.items() if where == address)
        if of_address >= MOST_AT_ONCE or self._running[address, user] >= MOST_AT_ONCE_OF_USER:
            raise ControlError(f"too many logins at once from {address}: try again", status=429)
        self._running[address, user] += 1
        began_ms = self._node.clock.machine.monotonic_ms()
        try:
            credential = self._passwords.credential(user)
            found = await self._passwords.authenticated(user, password)
            if found is None:
                took_ms = self._node.clock.machine.monotonic_ms() - began_ms
                await self._node.clock.machine.sleep(max(REFUSAL_MS - took_ms, 0))
                return None
        finally:
            self._running[address, user] -= 1
            self._running += Counter()  # without those that are over
        principal, lasts_ms = found
        ends_ms = self._node.clock.machine.monotonic_ms() + lasts_ms
        return self._kept(Session(principal, address, ends_ms, credential))

    def _kept(self, session: Session) -> str:
        """The token of a session that begins; those of its user that are over end, and the oldest that are too many."""
        token, user = secrets.token_urlsafe(32), session.principal.name
        now_ms = self._node.clock.machine.monotonic_ms()
        known = {one: self._sessions[one] for one in self._tokens.get(user, ())}
        there = [one for one, of in known.items() if of.address == session.address]
        over = [one for one, of in known.items() if of.ends_ms < now_ms]
        for one in {*over, *there[: 1 - MOST_SESSIONS_THERE], *list(known)[: 1 - MOST_SESSIONS]}:
            self.end(one)
        self._sessions[token] = session
        self._tokens.setdefault(user, []).append(token)
        return token

    def end(self, token: str | None) -> None:
        session = self._sessions.pop(token or "", None)
        if session is not None and token is not None:
            of_user = self._tokens[session.principal.name]
            of_user.remove(token)
            if not of_user:
                del self._tokens[session.principal.name]


WITH_PORT = re.compile(r"\[(.*)\](?::[0-9]+)?|([0-9.]+):[0-9]+")
"""Some proxies write `10.0.0.7:5000`, or `[::1]:5000`."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Origin(NamedTuple):
    """`address` is that of the browser, as ACLs have it; `is_secure`: the browser has come by https."""

    address: str
    is_secure: bool


def origin_of(request: web.Request, trusted: Collection[Network]) -> Origin:
    """Where the request comes from. Raises ControlError (403) if only a guess could say it."""
    peer = _address(request.remote or "")
    if peer is None:
        raise ControlError("the address of this connection is not known", status=403)
    if not _is_one_of(peer, trusted):
        if any(name in request.headers for name in OF_PROXIES):
            raise ControlError(
                f"this comes through a proxy, so that your own address is not known: name {peer} in "
                "odradek.http.trusted.proxies if it is yours",
                status=403,
            )
        return Origin(java_address(str(peer)), request.secure)
    protocols = _values(request, PROTO)
    return Origin(java_address(str(_behind(request, peer, trusted))), protocols[:1] == ["https"])


def _behind(request: web.Request, peer: Address, trusted: Collection[Network]) -> Address:
    """Who has come to the first trusted proxy: what stands before that in the header, anybody may have written."""
    names = _values(request, FOR)
    if not names:
        raise ControlError(f"the proxy at {peer} does not say for whom it asks: have it send {FOR}", status=403)
    found = peer
    for name in reversed(names):
        with_port = WITH_PORT.fullmatch(name)
        address = _address((with_port[1] or with_port[2]) if with_port else name)
        if address is None:
            raise ControlError(f"{FOR} has {name[:60]!r} in it: expected an address", status=403)
        found = address
        if not _is_one_of(found, trusted):
            break
    return found


def _values(request: web.Request, header: str) -> list[str]:
    """Those of a header that is a list, and may be there several times."""
    return [value.strip() for line in request.headers.getall(header, ()) for value in line.split(",") if value.strip()]


def _address(name: str) -> Address | None:
    """An IPv4 address that came as one of IPv6 (`::ffff:10.0.0.7`) is what ACLs have; a scope is not."""
    try:
        found = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _is_one_of(address: Address, networks: Collection[Network]) -> bool:
    return any(address in network for network in networks)
