"""Names and passwords of users over HTTP: those that the listeners with SASL know.

A password is compared with the users of PLAIN, and the SCRAM credentials of file and metadata. A listener whose clients
need more than a password, or that is for other nodes, has no part in that.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from broker.config.structured import LOGIN_LISTENERS, why_no_logins
from broker.network.request import CloseConnectionError, Principal
from broker.node import Node
from broker.security.node_security import Prepared
from controller.scram import SCRAM_MECHANISMS, ScramMechanism

if TYPE_CHECKING:
    from random import Random

    from broker.security.sasl.authenticator import SaslOptions
    from broker.security.sasl.conversations import Begin, Conversation

SESSION_MS = 12 * 3600 * 1000.0
"""How long a password counts after it was compared, if nothing says less."""


class Passwords:
    """The users of a node, who may change at any time."""

    def __init__(self, node: Node) -> None:
        self._node = node

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

    def credential(self, user: str) -> object:
        """What stands for the user's password in the metadata, and the mechanisms, which know the users of files."""
        scram = self._node.cluster.cache.image.scram
        return [scram.get((user, mechanism)) for mechanism in ScramMechanism], self._mechanisms()

    def _mechanisms(self) -> dict[tuple[str, str], tuple[Begin, float]]:
        """Those with passwords, by listener and name, with the ms that a session lasts: as long as a connection's."""
        return {
            (listener, name): (begin, options.reauth_ms.get(name) or SESSION_MS)
            for listener, options in self._login_listeners()
            for name, begin in options.mechanisms.items()
            if name == "PLAIN" or name in SCRAM_MECHANISMS
        }

    def _login_listeners(self) -> Iterator[tuple[str, SaslOptions]]:
        config = self._node.local.config
        named = {name.upper() for name in config.list_(LOGIN_LISTENERS)}
        for name, security in self._node.local.security.listeners.items():
            prepared = security.prepared
            if prepared.sasl is None or _wants_certificates(prepared) or (named and name not in named):
                continue
            others = self._node.bound.advertised.keys() - {name}
            if why_no_logins(config, security.listener, is_only_one=not others) is None:
                yield name, prepared.sasl

    async def authenticated(self, user: str, password: str) -> tuple[Principal, float] | None:
        """Who it is, and for how many ms."""
        workers = self._node.base.seams.workers.lane("security")
        for (listener, name), (begin, lasts_ms) in self._mechanisms().items():
            log_in = partial(_outcome, begin(), name, user, password, self._node.local.random)
            principal = await workers.call(log_in)
            self._node.local.security.attempts[listener, name, principal is not None] += 1
            if principal is not None:
                return principal, min(lasts_ms, SESSION_MS)
        return None


def _authenticates(prepared: Prepared) -> bool:
    return prepared.sasl is not None or _wants_certificates(prepared)


def _wants_certificates(prepared: Prepared) -> bool:
    return prepared.tls is not None and prepared.tls.verify_mode is ssl.CERT_REQUIRED


def _outcome(conversation: Conversation, mechanism: str, user: str, password: str, random: Random) -> Principal | None:
    """Whom the server's side of a mechanism takes the client's side for; takes milliseconds."""
    from broker.security.as_client import Account, LoginError
    from broker.security.sasl.conversations import AuthenticationError, Challenge, Success

    login = Account(mechanism, user, password).login(random)
    try:
        step = conversation.evaluate(next(login))
        while isinstance(step, Challenge):
            step = conversation.evaluate(login.send(step.data))
    except (AuthenticationError, LoginError, CloseConnectionError):
        return None
    assert isinstance(step, Success), "PLAIN and SCRAM answer at once"
    return step.principal
