"""The security of a node's own connections to one kind of listener, by the settings as they are at that moment.

Each new connection reads the settings and files anew, off the loop, so that a renewed certificate or password counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from broker.config.current import CurrentConfig
from broker.config.jaas import parse_jaas
from broker.config.listener_settings import ListenerSettings
from broker.config.listeners import Listener
from broker.peers.call import PeerAuthenticationError
from broker.peers.client import Connect, PeerNetwork
from broker.peers.connection import PeerConnection
from broker.security.errors import SecurityError
from broker.security.outgoing.authentication import authenticate
from broker.security.outgoing.logins import Account
from storage.workers import Workers

TIMEOUT_MS = 30_000.0


def secured(
    network: PeerNetwork, current: CurrentConfig, listener: Listener, workers: Workers, mechanism_setting: str
) -> PeerNetwork:
    """The same network, with connections to listeners such as `listener`: its name and protocol count."""
    lane = workers.lane("outgoing security")
    if listener.uses_tls:
        network = replace(network, connect=_tls(current, listener, lane))
    if listener.uses_sasl:
        login = partial(_log_in, current, listener, lane, network.random, mechanism_setting)
        network = replace(network, authenticate=login)
    return network


def _tls(current: CurrentConfig, listener: Listener, workers: Workers) -> Connect:
    async def connect(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> tuple[Any, Any]:
        from broker.security.tls.contexts import client_context

        settings = ListenerSettings(current.config, listener.name)
        try:
            context = await workers.call(partial(client_context, settings))
        except SecurityError as error:
            raise ConnectionError(str(error)) from error
        loop = asyncio.get_running_loop()
        return await loop.create_connection(factory, host, port, ssl=context, server_hostname=host)

    return connect


async def _log_in(
    current: CurrentConfig,
    listener: Listener,
    workers: Workers,
    random: Random,
    mechanism_setting: str,
    connection: PeerConnection,
) -> float | None:
    settings = ListenerSettings(current.config, listener.name)
    account = account_of(settings, current.config.string(mechanism_setting))
    return await authenticate(connection, account, account.login(random), workers, TIMEOUT_MS)


def account_of(settings: ListenerSettings, mechanism: str) -> Account:
    """Who this node is, by its JAAS line. Raises PeerAuthenticationError."""
    line = settings.text("sasl.jaas.config", mechanism)
    options = parse_jaas(line).options if line else {}
    if "username" not in options or "password" not in options:
        key = settings.key("sasl.jaas.config", mechanism)
        raise PeerAuthenticationError(f"{key}: expected a login module with username and password")
    return Account(mechanism, options["username"], options["password"])
