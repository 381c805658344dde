"""Who uses the console: where clients have to say who they are, its users log in with the same names and passwords.

A password is compared with what the listeners with SASL know: the users of PLAIN, and the SCRAM credentials of file and
metadata. Whose password has been changed or taken away has to log in again. Where clients authenticate by certificates
or tokens alone, or there is only an authorizer, nobody can log in.
"""

from __future__ import annotations

import secrets
import ssl
from collections import OrderedDict
from functools import partial
from typing import NamedTuple

from broker.console.ask import Rights
from broker.control.endpoint import ControlError
from broker.network.principal import Principal
from broker.network.request import CloseConnectionError
from broker.node import Node
from broker.security.listener_security import Prepared
from broker.security.outgoing.logins import Account, Login, LoginError
from broker.security.permissions import Permissions
from broker.security.sasl.conversation import AuthenticationError, Begin, Challenge, Conversation, Success
from controller.scram import SCRAM_MECHANISMS, ScramMechanism

SESSION_MS = 12 * 3600 * 1000.0
MOST_SESSIONS = 1000
REFUSAL_MS = 1000.0
"""How long a refusal is held back, so that guessing is slow."""

MOST_AT_ONCE = 10
"""Logins at one time: each costs milliseconds of a thread."""


class Session(NamedTuple):
    """`credential` is the one that the user logged in with; the session is over when it is another or gone."""

    principal: Principal
    ends_ms: float
    credential: object


class Logins:
    """The sessions of the console, by a random token that the browser keeps in a cookie."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._running = 0

    @property
    def required(self) -> bool:
        """Whether clients of some listener have to authenticate, or an authorizer decides what they may do.

        A controller alone does not know what the brokers ask of their clients, and so shows nothing to strangers.
        """
        if not self._node.local.config.is_broker:
            return True
        listeners = self._node.local.security.listeners.values()
        return self._node.base.authorizer is not None or any(_authenticates(each.prepared) for each in listeners)

    @property
    def users(self) -> bool:
        """Whether there is a listener whose users have passwords."""
        return bool(self._mechanisms())

    def rights(self, token: str | None, host: str) -> Rights | None:
        """What the user of this session may do; None if there is no such session, and there has to be one."""
        if not self.required:
            return Rights()
        session = self._sessions.get(token or "")
        if session is None or session.ends_ms < self._node.clock.machine.monotonic_ms():
            return None
        if self._credential(session.principal.name) != session.credential:
            self.end(token)
            return None
        authorizer, principal = self._node.base.authorizer, session.principal
        permissions = None if authorizer is None else Permissions(authorizer, principal, host)
        return Rights(str(principal), permissions)

    async def begin(self, user: str, password: str) -> str | None:
        """The token of a new session; None if the name or the password is wrong. Raises ControlError."""
        if self._running >= MOST_AT_ONCE:
            raise ControlError("too many people log in at once: try again", status=429)
        self._running += 1
        try:
            credential = self._credential(user)
            principal = await self._authenticated(user, password)
            if principal is None:
                await self._node.clock.machine.sleep(REFUSAL_MS)
                return None
        finally:
            self._running -= 1
        token = secrets.token_urlsafe(32)
        ends_ms = self._node.clock.machine.monotonic_ms() + SESSION_MS
        self._sessions[token] = Session(principal, ends_ms, credential)
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return token

    def end(self, token: str | None) -> None:
        self._sessions.pop(token or "", None)

    def _credential(self, user: str) -> object:
        """What stands for the user's password in the metadata, and the mechanisms, which know the users of files."""
        scram = self._node.cluster.cache.image.scram
        return [scram.get((user, mechanism)) for mechanism in ScramMechanism], self._mechanisms()

    def _mechanisms(self) -> dict[tuple[str, str], Begin]:
        """Those with passwords, by listener and name."""
        return {
            (listener, name): begin
            for listener, security in self._node.local.security.listeners.items()
            if security.prepared.sasl is not None
            for name, begin in security.prepared.sasl.mechanisms.items()
            if name == "PLAIN" or name in SCRAM_MECHANISMS
        }

    async def _authenticated(self, user: str, password: str) -> Principal | None:
        workers = self._node.base.seams.workers.lane("security")
        for (listener, name), begin in self._mechanisms().items():
            login = Account(name, user, password).login(self._node.local.random)
            principal = await workers.call(partial(_outcome, begin(), login))
            self._node.local.security.attempts[listener, name, principal is not None] += 1
            if principal is not None:
                return principal
        return None


def _authenticates(prepared: Prepared) -> bool:
    tls = prepared.tls
    return prepared.sasl is not None or (tls is not None and tls.verify_mode is ssl.CERT_REQUIRED)


def _outcome(conversation: Conversation, login: Login) -> Principal | None:
    """Whom the server's side of a mechanism takes the client's side for; takes milliseconds."""
    try:
        step = conversation.evaluate(next(login))
        while isinstance(step, Challenge):
            step = conversation.evaluate(login.send(step.data))
    except (AuthenticationError, LoginError, CloseConnectionError):
        return None
    assert isinstance(step, Success), "PLAIN and SCRAM answer at once"
    return step.principal
