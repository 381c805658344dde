"""A conversation about who a client is, step by step; what comes back is kept as it can be compared."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from typing import Any

from tests.certificates import trusting
from tests.conformance.authentication.settings import REAUTH_MS, Certificates
from tests.conformance.wire import Closed, Frame, Silent, Wire

TIMEOUT_S = 3.0
_TEXTS = ("error_message",)

Step = Callable[["Talk"], None]
CONVERSATIONS: dict[str, Step] = {}


def conversation(step: Step) -> Step:
    """Register a conversation by its name."""
    CONVERSATIONS[step.__name__] = step
    return step


class TlsWire(Wire):
    """A `Wire` through TLS, without looking at the broker's name."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        super().__init__(host, port, TIMEOUT_S)
        context.check_hostname = False
        self._sock.settimeout(TIMEOUT_S)
        self._sock = context.wrap_socket(self._sock)

    @property
    def version(self) -> str | None:
        assert isinstance(self._sock, ssl.SSLSocket)
        return self._sock.version()


class Talk:
    """Ports by listener, and the transcript of one conversation."""

    def __init__(self, ports: dict[str, int], certificates: Certificates) -> None:
        self.certificates = certificates
        self.steps: dict[str, Any] = {}
        self._ports = ports
        self._wires: list[Wire] = []

    def connect(self, listener: str = "SASL") -> Wire:
        wire = Wire("127.0.0.1", self._ports[listener], TIMEOUT_S)
        self._wires.append(wire)
        return wire

    def connect_tls(
        self, step: str, listener: str, client: str | None = None, context: ssl.SSLContext | None = None
    ) -> TlsWire | None:
        """None if the handshake fails, which is kept."""
        if context is None:
            context = trusting(self.certificates.ca, None if client is None else self.certificates.clients[client])
        try:
            wire = TlsWire("127.0.0.1", self._ports[listener], context)
        except OSError:
            self.keep(step, "no handshake")
            return None
        self._wires.append(wire)
        return wire

    def call(self, step: str, wire: Wire, api: str, version: int, **body: Any) -> dict[str, Any]:
        """Send a request, and keep and return its answer; {} if none came."""
        answer = wire.call(api, version, body)
        self.keep(step, answer)
        return answer if isinstance(answer, dict) else {}

    def bare(self, step: str, wire: Wire, token: bytes, shown: Callable[[bytes], Any] = bytes.hex) -> bytes:
        """Send a token that is a frame by itself, as after SaslHandshake v0; keep what comes back."""
        wire.send_frame(token)
        outcome = wire.receive()
        if isinstance(outcome, Frame):
            self.keep(step, shown(outcome.data))
            return outcome.data
        self.keep(step, outcome)
        return b""

    def raw(self, step: str, wire: Wire, payload: bytes) -> None:
        """Send a frame of bytes; keep the first bytes of what comes back."""
        self.bare(step, wire, payload, lambda data: {"hex": data[:12].hex()})

    def keep(self, step: str, value: Any) -> None:
        if step in self.steps:
            raise KeyError(f"step {step!r} twice")
        match value:
            case Closed():
                value = "closed"
            case Silent():
                value = "silence"
            case dict():
                value = _comparable(value)
        self.steps[step] = value

    def close(self) -> None:
        for wire in self._wires:
            with contextlib.suppress(OSError):
                wire.close()


def _comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Without texts, which are not compared, with mechanisms in one order."""
    shown = dict(answer)
    for name in _TEXTS:
        if name in shown:
            shown[name] = shown[name] and "<text>"
    if "mechanisms" in shown:
        shown["mechanisms"] = sorted(shown["mechanisms"])
    if shown.get("session_lifetime", 0) not in (0, REAUTH_MS):
        shown["session_lifetime"] = "<until the token ends>"
    if "api_keys" in shown:
        shown = {"error_code": shown["error_code"], "api_keys": "<some>" if shown["api_keys"] else []}
    if isinstance(shown.get("auth_bytes"), bytes):
        shown["auth_bytes"] = shown["auth_bytes"].hex()
    return shown


def play(step: Step, ports: dict[str, int], certificates: Certificates) -> dict[str, Any]:
    """The transcript of a conversation."""
    talk = Talk(ports, certificates)
    try:
        step(talk)
    finally:
        talk.close()
    return talk.steps
