"""The client of one other node: a connection that is opened when it is needed, and again after it was lost.

Theory of operation. `send` opens the connection if there is none; callers that come meanwhile wait for the same
attempt. An attempt that fails fails all of them, and so does a lost connection with what is in flight: nothing is
sent twice, since only the caller knows whether that is right. After a failure the next attempt waits for the back-off,
which doubles from `reconnect_backoff_ms` to `reconnect_backoff_max_ms`, less or more by a fifth at random; so a caller
may try again at once. A connection that was opened resets it. `close` is final.

The settings are Kafka's defaults of clients (`CommonClientConfigs`); requests have a deadline by the node's clock.

`PeerClients` has one for each address; `ask_versions` asks once a connection which versions of its APIs a node serves.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from broker.peers.call import (
    Call,
    PeerDisconnectedError,
    PeerTimeoutError,
    PeerUnreachableError,
    PeerVersionError,
    entity_call,
)
from broker.peers.connection import PeerConnection
from timing.clock import Clock

T = TypeVar("T")

JITTER = 0.2

Connect = Callable[[Callable[[], asyncio.Protocol], str, int], Awaitable[tuple[Any, Any]]]
"""Opens a connection: `(protocol factory, host, port) -> (transport, protocol)`, as `loop.create_connection`.

Raises OSError. A simulated network, or TLS, takes its place.
"""

VersionRanges = dict[int, tuple[int, int]]
"""The lowest and highest version that a node serves, by API key."""

Prepare = Callable[[PeerConnection], Awaitable[VersionRanges | None]]
"""What is said on a new connection before it is used, such as ApiVersions or SASL; the versions, if it asked for them.

Raises PeerError, which ends the connection.
"""


async def open_socket(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> tuple[Any, Any]:
    """A plain TCP connection. Raises OSError."""
    return await asyncio.get_running_loop().create_connection(factory, host, port)


Authenticate = Callable[[PeerConnection], Awaitable[float | None]]
"""Shows a node that takes nobody unknown who this node is; says for how many ms that holds, None for ever.

Raises PeerError, which ends the connection.
"""

RENEWED_AT = 0.85
"""After this part of the time for which an authentication holds, a new connection takes the old one's place."""


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """How to connect; times in ms."""

    client_id: str
    request_timeout_ms: float = 30_000
    connection_setup_timeout_ms: float = 10_000
    reconnect_backoff_ms: float = 50
    reconnect_backoff_max_ms: float = 1_000


@dataclass(frozen=True, slots=True)
class PeerNetwork:
    """The common part of all clients of a node: time, randomness, and the way to open a connection and to be let in."""

    clock: Clock
    random: random.Random
    connect: Connect = open_socket
    authenticate: Authenticate | None = None


class PeerClient:
    """See the theory of operation above."""

    def __init__(
        self, host: str, port: int, settings: PeerSettings, network: PeerNetwork, prepare: Prepare | None = None
    ) -> None:
        self.host = host
        self.port = port
        self.versions: VersionRanges | None = None
        self._settings = settings
        self._network = network
        self._prepare = prepare
        self._connection: PeerConnection | None = None
        self._opening: asyncio.Task[PeerConnection] | None = None
        self._failures = 0
        self._last_failure = ""
        self._not_before_ms = 0.0
        self._renew_at_ms: float | None = None
        self._closed = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    async def send(self, call: Call[T], timeout_ms: float | None = None) -> T:
        """Send a request and return its answer, in the highest version that both nodes speak.

        `timeout_ms` (default: `request_timeout_ms`) is for all of it, back-off and connecting included. Cancelling ends
        only the wait: the request may have been handled. Raises PeerError.
        """
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        connection = self._connection
        if connection is None or not connection.is_open or self._is_due():
            begun_ms = self._network.clock.monotonic_ms()
            connection = await self._connected(limit_ms)
            limit_ms -= self._network.clock.monotonic_ms() - begun_ms
        return await connection.send(call, self._version(call), limit_ms)

    def _version(self, call: Call[Any]) -> int:
        if self.versions is None:
            return call.highest
        lowest, highest = self.versions.get(call.api_key, (0, -1))
        version = min(highest, call.highest)
        if version < max(lowest, call.lowest):
            serves = f"versions {lowest} to {highest}" if highest >= 0 else "no version"
            raise PeerVersionError(
                f"{self} serves {serves} of API {call.api_key}, but versions {call.lowest} to {call.highest} are needed"
            )
        return version

    def close(self) -> None:
        """End the connection for good; what is in flight or waits for it fails with PeerDisconnectedError."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.close(PeerDisconnectedError(f"the connection to {self} was closed by this node"))

    # -- opening

    async def _connected(self, limit_ms: float) -> PeerConnection:
        if self._closed:
            raise PeerDisconnectedError(f"the connection to {self} was closed by this node")
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        expired = asyncio.ensure_future(self._network.clock.sleep(limit_ms))
        try:  # a caller that goes leaves the attempt to the others
            await asyncio.wait([opening, expired], return_when=asyncio.FIRST_COMPLETED)
        finally:
            expired.cancel()
        if not opening.done():
            earlier = f"; the last attempt failed: {self._last_failure}" if self._last_failure else ""
            raise PeerTimeoutError(f"no connection to {self} within {limit_ms:.0f} ms{earlier}")
        if opening.cancelled():
            raise PeerDisconnectedError(f"the connection to {self} was closed by this node")
        return opening.result()

    def _opened(self, opening: asyncio.Task[PeerConnection]) -> None:
        self._opening = None
        if opening.cancelled():
            return
        error = opening.exception()
        self._last_failure = "" if error is None else str(error)
        if error is None:
            self._failures = 0
        else:
            self._failed()

    async def _open(self) -> PeerConnection:
        clock = self._network.clock
        pause_ms = self._not_before_ms - clock.monotonic_ms()
        if pause_ms > 0:
            await clock.sleep(pause_ms)
        connection = PeerConnection(str(self), self._settings.client_id, clock, self._lost)
        try:
            await self._dial(connection)
            renew_at_ms = await self._authenticate(connection)
            if self._prepare is not None:
                self.versions = await self._prepare(connection)
        except BaseException:
            connection.close(PeerDisconnectedError(f"the connection to {self} could not be prepared"))
            raise
        former, self._connection, self._renew_at_ms = self._connection, connection, renew_at_ms
        if former is not None:
            former.retire()
        return connection

    async def _authenticate(self, connection: PeerConnection) -> float | None:
        """When the connection must be replaced, None for never."""
        if self._network.authenticate is None:
            return None
        lifetime_ms = await self._network.authenticate(connection)
        return None if lifetime_ms is None else self._network.clock.monotonic_ms() + RENEWED_AT * lifetime_ms

    def _is_due(self) -> bool:
        return self._renew_at_ms is not None and self._network.clock.monotonic_ms() >= self._renew_at_ms

    async def _dial(self, connection: PeerConnection) -> None:
        limit_ms = self._settings.connection_setup_timeout_ms
        dialling = asyncio.ensure_future(self._network.connect(lambda: connection, self.host, self.port))

        def give_up() -> None:
            dialling.cancel()

        timer = self._network.clock.call_later(limit_ms, give_up)
        try:
            await asyncio.wait([dialling])
            if dialling.cancelled():
                raise PeerUnreachableError(f"no connection to {self} within {limit_ms:.0f} ms")
            dialling.result()
        except OSError as error:
            raise PeerUnreachableError(f"no connection to {self}: {error.strerror or error}") from error
        finally:
            timer.cancel()
            dialling.cancel()

    def _lost(self, connection: PeerConnection) -> None:
        if connection is self._connection:
            self._connection = None
            self._failed()

    def _failed(self) -> None:
        """Have the next attempt wait."""
        settings = self._settings
        backoff = min(settings.reconnect_backoff_ms * 2.0**self._failures, settings.reconnect_backoff_max_ms)
        jitter = 1 + self._network.random.uniform(-JITTER, JITTER)
        self._not_before_ms = self._network.clock.monotonic_ms() + backoff * jitter
        self._failures = min(self._failures + 1, 32)


INSPECTION_CLIENT_ID = "odradek-inspection"
"""The client id of the questions of brokers about each other. No fault strikes them, and no journal shows them: whoever
looks at a cluster must not change what is seen."""


class PeerClients:
    """Makes a client when its address is first asked for, and keeps it until the end."""

    def __init__(self, settings: PeerSettings, network: PeerNetwork, prepare: Prepare | None = None) -> None:
        self._settings = settings
        self._network = network
        self._prepare = prepare
        self._by_address: dict[tuple[str, int], PeerClient] = {}
        self._closed = False

    def of(self, host: str, port: int) -> PeerClient:
        client = self._by_address.get((host, port))
        if client is None:
            client = PeerClient(host, port, self._settings, self._network, self._prepare)
            self._by_address[host, port] = client
            if self._closed:
                client.close()
        return client

    def keep_only(self, host: str, port: int) -> None:
        """Close the connections to all other addresses: what is in flight there fails."""
        for address in [known for known in self._by_address if known != (host, port)]:
            self._by_address.pop(address).close()

    def close(self) -> None:
        """End all connections for good, those of later clients too."""
        self._closed = True
        for client in self._by_address.values():
            client.close()


CLIENT_SOFTWARE = "odradek"


async def ask_versions(connection: PeerConnection, timeout_ms: float = 30_000) -> VersionRanges:
    """The answer of ApiVersions; for `PeerClient`'s `prepare`. Raises PeerError."""
    from kio.schema.api_versions.v3 import ApiVersionsRequest
    from kio.schema.errors import ErrorCode

    request = ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE, client_software_version="1")
    call = entity_call(request)
    response = await connection.send(call, call.highest, timeout_ms)
    if response.error_code is not ErrorCode.none:
        raise PeerDisconnectedError(f"{connection.address} refused ApiVersions: {response.error_code.name}")
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
