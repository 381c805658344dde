"""Who asks the registry: a name and a password with each request (HTTP Basic), or a certificate where TLS asks for one.

The names and passwords are those of the listeners with SASL (`broker.passwords`). Clients send theirs with every
request, and to compare one takes milliseconds: so one that was right counts for a while, as long as it is not changed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from broker.network.request import ANONYMOUS, Principal
from broker.passwords import Passwords
from broker.registry.errors import Code, RegistryError
from broker.registry.rights import Rights
from broker.security.permissions import Permissions

if TYPE_CHECKING:
    from broker.node import Node

LISTENER = "REGISTRY"
"""The listener whose settings `https` has."""

KNOWN_MS = 60_000.0
"""How long a password that was right is not compared again."""

MOST_KNOWN = 1000
REFUSAL_MS = 1000.0
"""How long a refusal takes, whatever was looked at: guessing is slow, and does not tell which names there are."""

MOST_AT_ONCE = 10
"""Passwords of one address that are compared, or being refused, at one time."""

LONGEST = 4096


class Known(NamedTuple):
    principal: Principal
    until_ms: float
    credential: object


class Users:
    """`rights` says what who sent a request may do."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._passwords = Passwords(node)
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, Known] = OrderedDict()
        self._running: Counter[str] = Counter()

    @property
    def required(self) -> bool:
        """Whether nobody may ask without saying who it is."""
        return self._passwords.required

    async def rights(self, authorization: str | None, address: str, by_certificate: Principal | None = None) -> Rights:
        """What the sender of a request may do, by the header `Authorization`. Raises RegistryError (401, 429)."""
        if not self.required:
            return Rights()
        principal = by_certificate or await self._principal(authorization, address)
        return rights_of(self._node, principal, address)

    async def _principal(self, authorization: str | None, address: str) -> Principal:
        if authorization is None and not self._passwords.users:
            return ANONYMOUS  # nobody here has a password: the authorizer decides what may be done without one
        user, password = _basic(authorization)
        digest = hmac.digest(self._key, f"{len(user)}:{user}{password}".encode(), hashlib.sha256)
        known, now_ms = self._known.get(digest), self._node.clock.machine.monotonic_ms()
        credential = self._passwords.credential(user)
        if known is not None and known.until_ms > now_ms and known.credential == credential:
            return known.principal
        found = await self._compared(user, password, address)
        self._known[digest] = Known(found[0], now_ms + min(KNOWN_MS, found[1]), credential)
        self._known.move_to_end(digest)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return found[0]

    async def _compared(self, user: str, password: str, address: str) -> tuple[Principal, float]:
        if self._running[address] >= MOST_AT_ONCE:
            raise RegistryError(Code.TOO_MANY, f"Too many logins at once from {address}: try again")
        self._running[address] += 1
        clock = self._node.clock.machine
        began_ms = clock.monotonic_ms()
        try:
            found = await self._passwords.authenticated(user, password)
            if found is None:
                await clock.sleep(max(REFUSAL_MS - (clock.monotonic_ms() - began_ms), 0))
                raise RegistryError(Code.UNAUTHORIZED, "Wrong name or password")
            return found
        finally:
            self._running[address] -= 1
            if not self._running[address]:
                del self._running[address]


def rights_of(node: Node, principal: Principal, address: str) -> Rights:
    """What a user may do from an address."""
    authorizer = node.base.authorizer
    return Rights() if authorizer is None else Rights(Permissions(authorizer, principal, address))


def _basic(authorization: str | None) -> tuple[str, str]:
    """Name and password of HTTP Basic. Raises RegistryError."""
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() != "basic" or len(given) > LONGEST:
        raise RegistryError(Code.UNAUTHORIZED, "Say who you are: name and password by HTTP Basic")
    try:
        user, colon, password = base64.b64decode(given.strip(), validate=True).decode().partition(":")
    except ValueError:
        colon = ""
    if not colon:
        raise RegistryError(Code.UNAUTHORIZED, "The header Authorization is not in the form of HTTP Basic")
    return user, password
