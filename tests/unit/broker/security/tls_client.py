"""The client's side of TLS over a `FakeTransport`, without sockets."""

from __future__ import annotations

import ssl
from typing import Any

from broker.network.connection import Connection
from broker.network.tls import TlsLayer
from tests.doubles.clock import settle
from tests.unit.broker.rig import FakeTransport, Rig
from tests.unit.broker.wire import answer, frame


class TlsClient:
    """`shake` first; then `ask`. `error` is what OpenSSL says of the server, or of what it refused."""

    def __init__(
        self,
        rig: Rig,
        context: ssl.SSLContext,
        listener: str = "TLS",
        host: str = "10.0.0.8",
        session: ssl.SSLSession | None = None,
    ) -> None:
        layer = rig.node.server.new_connection(listener)
        assert isinstance(layer, TlsLayer)
        self.layer = layer
        self.transport = FakeTransport(layer, host)
        layer.connection_made(self.transport)
        self.error: ssl.SSLError | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost", session=session)
        self._taken = 0
        self._correlation = 0

    @property
    def connection(self) -> Connection:
        return self.layer._connection

    async def exchange(self) -> None:
        """Bring what either side has written to the other."""
        self.transport.feed(self._outgoing.read())
        await settle()
        self._incoming.write(bytes(self.transport.sent[self._taken :]))
        self._taken = len(self.transport.sent)

    async def shake(self) -> bool:
        """Take every step of the handshake; return whether the client is content."""
        for _ in range(6):
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.exchange()
            except ssl.SSLError as error:
                self.error = error
                await self.exchange()
                return False
            else:
                await self.exchange()
                return True
        return False

    async def hello(self) -> None:
        """Send no more than the first message of the handshake."""
        with_nothing_to_read = False
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            with_nothing_to_read = True
        assert with_nothing_to_read
        await self.exchange()

    async def send(self, data: bytes) -> bytes:
        """What is answered to bytes; empty if the connection was closed."""
        self.tls.write(data)
        await self.exchange()
        return self.read()

    def read(self) -> bytes:
        found = b""
        try:
            while piece := self.tls.read(1 << 20):
                found += piece
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.error = error
        return found

    async def ask(self, api: str, version: int, **fields: Any) -> Any:
        self._correlation += 1
        reply = await self.send(frame(api, version, self._correlation, **fields))
        return answer(reply[4:], api, version) if reply else None
