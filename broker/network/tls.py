"""TLS between a socket's transport and a `SecuredConnection`, with the standard library's `ssl`.

To the transport this is the protocol, and to the connection it is the transport:

    state      what it does with bytes that arrive                               goes on to
    NEW        looks whether they may begin a TLS handshake                      SHAKING, or closes: a plaintext client
    SHAKING    a worker thread takes the next step of the handshake with them    OPEN, or closes: the handshake failed
    OPEN       decrypts them into the connection's own buffer, on the loop       (stays)

A step of a handshake costs as much as a hundred small requests (a signature), so the loop takes none, and the worker
that takes the last one also reads the client's name from its certificate. OpenSSL's object
is used by one thread at a time: what arrives during a step waits in `_held`. The loop's own TLS (`create_server(ssl=)`)
would take every step on the loop, would not show what a client that speaks no TLS sent, and keeps one context for ever.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, cast

import structlog

from broker.network.frames import PLAINTEXT, may_begin_tls
from broker.network.request import UnknownClientError

if TYPE_CHECKING:
    from broker.network.ports import Secures
    from broker.network.request import Principal
    from broker.network.secured_connection import SecuredConnection
    from storage.workers import Workers

logger = structlog.get_logger(__name__)

RECEIVED_AT_ONCE = 128 * 1024
MOST_HANDSHAKE_BYTES = 256 * 1024
"""What a client may send before its handshake is done: chains of certificates have a few thousand bytes."""

MOST_WITHOUT_DATA = 32 * 1024
"""What a client may send in a row that has no data in it: a whole record has 16 KiB. Changes of keys, of 27 bytes, take
OpenSSL a hundred times as long as data, and it answers them.
"""

MOST_WASTED = 20 * 1024
"""What may be more than data in what comes at once: a record that is not whole, and the frames of others."""

_received = memoryview(bytearray(RECEIVED_AT_ONCE))
"""Where encrypted bytes arrive, of all connections: they are handed to OpenSSL before anything else runs."""
_little = _received[: 16 * 1024]
"""For who has not yet sent so much data, or has wasted: none of it keeps the loop for long."""


class TlsState(Enum):
    """See the table above."""

    NEW = auto()
    SHAKING = auto()
    OPEN = auto()
    CLOSED = auto()


class TlsLayer(asyncio.Transport, asyncio.BufferedProtocol):
    """The server's side of one TLS connection; `identifies`: the certificate says who the client is, not SASL."""

    def __init__(
        self, connection: SecuredConnection, secures: Secures, handshakes: Workers, *, identifies: bool
    ) -> None:
        super().__init__()
        self._connection = connection
        self._protocol: Any = connection  # or what a fault has put before it
        self._secures = secures
        self._handshakes = handshakes
        self._identifies = identifies
        self._transport: asyncio.Transport | None = None
        self._state = TlsState.NEW
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._stepping = False  # a worker thread uses the object and both buffers
        self._held = bytearray()
        self._handshake_bytes = 0
        self._paused = False
        self._unread = False  # the client does not take what was written, OpenSSL's own answers among it
        self._room = _little
        self._wastes = False
        self._fed = self._got = 0  # bytes for OpenSSL since it had all, and the data in them
        self._without_data = 0
        self._left_early = False  # the client closed the connection during a step of the handshake

    # -- the protocol of the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._left_early = self._stepping and self._state is TlsState.SHAKING
        self._state = TlsState.CLOSED
        self._tls = None
        self._protocol.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        data = _received[:nbytes]
        if self._state is TlsState.OPEN:
            self._incoming.write(data)
            self._fed += nbytes
            self._decrypt()
            return
        if self._state is TlsState.NEW:
            if not may_begin_tls(bytes(data[:2])):
                self._connection.warn_of(PLAINTEXT)
                self.close()
                return
            self._begin()
        self._handshake_bytes += nbytes
        if self._handshake_bytes > MOST_HANDSHAKE_BYTES:
            self._fail(f"more than {MOST_HANDSHAKE_BYTES} bytes before its end")
            return
        self._held += data
        self._step()

    def eof_received(self) -> bool:
        return bool(self._protocol.eof_received()) if self._state is TlsState.OPEN else False

    def pause_writing(self) -> None:
        self._set_reading(paused=self._paused, unread=True)
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._set_reading(paused=self._paused, unread=False)
        self._protocol.resume_writing()

    # -- the handshake

    def _begin(self) -> None:
        context = self._secures.tls
        assert context is not None, "a listener keeps its protocol"
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._state = TlsState.SHAKING

    def _step(self) -> None:
        if self._stepping or self._state is not TlsState.SHAKING:
            return
        tls, data = self._tls, bytes(self._held)
        assert tls is not None
        self._held.clear()
        self._stepping = True

        def work() -> tuple[bool, Principal | None]:
            """Take the step; return whether it was the last, and then who the client is by its certificate."""
            self._incoming.write(data)
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                return False, None
            certificate = tls.getpeercert(binary_form=True)
            if self._identifies:
                return True, self._secures.principal_of(certificate)
            self._secures.check_certificate(certificate)
            return True, None

        self._handshakes.submit(work, self._stepped, self._step_failed)

    def _stepped(self, outcome: tuple[bool, Principal | None]) -> None:
        was_last, principal = outcome
        self._stepping = False
        if self._state is not TlsState.SHAKING:  # closed meanwhile
            return
        self._send_encrypted()
        if was_last:
            self._opened(principal)
        elif self._held:
            self._step()

    def _step_failed(self, error: Exception) -> None:
        self._stepping = False
        if self._state is not TlsState.SHAKING and not self._left_early:
            return
        self._send_encrypted()  # the alert that tells the client
        if isinstance(error, OSError):  # an SSLError is one
            self._fail(reason_of(error))
        elif isinstance(error, UnknownClientError):
            self._fail(str(error))
        else:
            logger.error("unexpected error in a TLS handshake", exc_info=error)
            self._fail("an unexpected error")

    def _opened(self, principal: Principal | None) -> None:
        if principal is not None:
            self._connection.authenticated(principal)
        self._state = TlsState.OPEN
        if self._held:
            self._incoming.write(self._held)
            self._held.clear()
        self._decrypt()

    def _fail(self, reason: str) -> None:
        self._connection.warn("TLS handshake failed", reason=reason)
        self.close()

    # -- the open connection

    def _decrypt(self) -> None:
        """Hand what has arrived to the connection, as long as it reads."""
        protocol, incoming = self._protocol, self._incoming
        tls = self._tls
        assert tls is not None
        try:
            while not self._paused and self._state is TlsState.OPEN:
                space = protocol.get_buffer(-1)
                if not space:
                    break
                count = tls.read(len(space), space)
                if not count:
                    raise ssl.SSLZeroReturnError
                self._got += cast(int, count)
                protocol.buffer_updated(cast(int, count))
                if not incoming.pending and not tls.pending():
                    break
        except ssl.SSLWantReadError:
            pass  # the rest of a record has not arrived
        except ssl.SSLZeroReturnError:
            if not protocol.eof_received():
                self.close()
        except ssl.SSLError as error:
            self._connection.warn("connection closed", error=f"TLS: {reason_of(error)}")
            self.abort()
        if self._outgoing.pending and self._state is TlsState.OPEN:
            self._send_encrypted()  # an answer of OpenSSL's own, as to a change of keys
        if not self._paused and self._state is TlsState.OPEN:
            self._account()

    def _account(self) -> None:
        """Close the connection of a client that sends no data, and take little at once of who sends little of it."""
        fed, got = self._fed, self._got
        self._fed = self._got = 0
        self._without_data = 0 if got else self._without_data + fed
        if self._without_data > MOST_WITHOUT_DATA:
            self._connection.warn("connection closed", error="TLS: too many records without data")
            self.abort()
        elif fed - got > MOST_WASTED:
            self._wastes, self._room = True, _little
        elif got > len(_little) // 2 and not self._wastes:
            self._room = _received

    def _send_encrypted(self) -> None:
        if self._transport is not None and self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    # -- the transport of the connection

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_reading(self) -> bool:
        return not self._paused

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def write(self, data: Any) -> None:
        tls = self._tls
        if tls is None or self._state is not TlsState.OPEN:
            return
        rest = memoryview(data)
        while rest:
            rest = rest[tls.write(rest) :]
        self._send_encrypted()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self._set_reading(paused=True, unread=self._unread)

    def resume_reading(self) -> None:
        self._set_reading(paused=False, unread=self._unread)
        if self._transport is not None:
            asyncio.get_running_loop().call_soon(self._resume)

    def _set_reading(self, *, paused: bool, unread: bool) -> None:
        before, self._paused, self._unread = self._paused or self._unread, paused, unread
        if self._transport is not None and before != (paused or unread):
            if before:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _resume(self) -> None:
        if self._state is TlsState.OPEN and not self._paused:
            self._decrypt()

    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        """Say goodbye, as TLS wants it, and close once everything written is sent."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._state is TlsState.OPEN and self._tls is not None:
            with suppress(ssl.SSLError):  # the client's own goodbye is not waited for
                self._tls.unwrap()
            self._send_encrypted()
        self._state = TlsState.CLOSED
        self._transport.close()

    def abort(self) -> None:
        self._state = TlsState.CLOSED
        if self._transport is not None:
            self._transport.abort()


def reason_of(error: OSError) -> str:
    """OpenSSL's reason in words, such as `certificate has expired`, and whose certificate it is about."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    reason = getattr(error, "reason", None)
    if not reason:
        return str(error)
    _, is_clients, alert = str(reason).partition("_ALERT_")
    if not is_clients:
        return _in_words(reason)
    about_ours = "CERTIFICATE" in alert or alert == "UNKNOWN_CA"
    return f"the client {'refuses our certificate' if about_ours else 'ended it'}: {_in_words(alert)}"


def _in_words(reason: str) -> str:
    return reason.replace("_", " ").lower()
