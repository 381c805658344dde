"""SASL on one connection, from its first byte on (KIP-43, KIP-152, KIP-368, Kafka's `SaslServerAuthenticator`).

It stands in the dispatcher's place until the client is known:

    state       the client may send                                             goes on to
    START       ApiVersions, SaslHandshake                                      HANDSHAKE, TOKENS
    HANDSHAKE   SaslHandshake: its one good ApiVersions has been answered       TOKENS
    TOKENS      SaslAuthenticate after SaslHandshake v1; after v0 bare tokens   OPEN, once its mechanism is content
    OTHER_WAY   anything, and is closed: it re-authenticates by another         (closed)
                mechanism than it came by
    OPEN        everything. SaslHandshake begins a re-authentication (TOKENS)   TOKENS
                where sessions end; any other request after the end of the
                session closes the connection

Anything else closes the connection: without an answer before the handshake and after v0; with an error of the request's
own kind after v1 (ILLEGAL_SASL_STATE). A refusal, and a close too, is held back for a while, so that guessing is slow.
Where sessions have no end, the dispatcher itself takes over once the client is known, and no request is looked at here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from broker.network.dispatch import Buffers, Dispatcher, Pending
from broker.network.request import CloseConnectionError, Principal
from broker.security.sasl.conversations import (
    AuthenticationError,
    Begin,
    Challenge,
    Conversation,
    Step,
    Success,
    invalid_credentials,
)
from protocol.api.row import API_VERSIONS_KEY
from protocol.api.table import API_BY_KEY
from protocol.errors import IllegalSaslState, UnsupportedSaslMechanism
from protocol.primitives import INT32

if TYPE_CHECKING:
    from broker.network.secured_connection import SecuredConnection
    from timing.clock import Clock
    from timing.wheel import TimingWheel

logger = structlog.get_logger(__name__)

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
LEAST_REAUTHENTICATION_MS = 1000
"""Within this time of the last one a re-authentication is refused."""
LONGEST_SESSION_MS = 1 << 50
MOST_TOKEN_BYTES = 64 * 1024
"""The largest token, which is read on the loop. The tokens of all mechanisms here are much shorter."""
_KEY_BYTES = 2
_ERROR_CODE_AT = 8
"""Where an ApiVersions answer has its error code, behind its size and the correlation id."""


class SaslState(Enum):
    """See the table above."""

    START = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    OTHER_WAY = auto()
    OPEN = auto()


@dataclass(frozen=True, slots=True)
class SaslOptions:
    """The SASL options of the connections of one listener.

    Attributes:
        mechanisms: how each enabled mechanism begins a conversation.
        reauth_ms: `connections.max.reauth.ms` of each mechanism; 0 for never.
        delay_ms: for how long a refusal is held back.
        largest_request: in bytes, until the client is known.
        counted: called with the mechanism's name and whether the client was let in.
    """

    mechanisms: Mapping[str, Begin] = field(repr=False)
    reauth_ms: Mapping[str, int]
    delay_ms: int
    largest_request: int
    counted: Callable[[str, bool], None]


class SaslAuthenticator:
    """For one connection; `Connection.dispatcher` until the client is known, and longer where sessions end."""

    def __init__(self, dispatcher: Dispatcher, options: SaslOptions, clock: Clock, wheel: TimingWheel) -> None:
        self.pipelined_keys = dispatcher.pipelined_keys
        self._dispatcher = dispatcher
        self._options = options
        self._clock = clock
        self._wheel = wheel
        self._state = SaslState.START
        self._bare_tokens = False
        self._mechanism = ""
        self._conversation: Conversation
        self._known_as: Principal | None = None
        self._session_ms: float | None = None  # how long the client is known for; None for ever
        self._session_end_ms: float | None = None
        self._began_again_ms: float | None = None

    def dispatch(self, connection: SecuredConnection, frame: memoryview) -> Buffers | Pending | None:
        """Handle one request, as `Dispatcher.dispatch` does."""
        match self._state:
            case SaslState.OPEN:
                return self._open(connection, frame)
            case SaslState.TOKENS if self._bare_tokens:
                return self._bare_token(connection, bytes(frame))
            case SaslState.TOKENS:
                return self._authenticate(connection, frame)
            case SaslState.OTHER_WAY:
                return self._close_later("re-authentication by another mechanism")
        return self._before_tokens(connection, frame)

    # -- before the tokens

    def _before_tokens(self, connection: SecuredConnection, frame: memoryview) -> Buffers | Pending | None:
        key = _key_of(frame)
        if key == API_VERSIONS_KEY and self._state is SaslState.START:
            answer = self._dispatcher.dispatch(connection, frame)
            if isinstance(answer, bytes | bytearray) and not any(answer[_ERROR_CODE_AT : _ERROR_CODE_AT + 2]):
                self._state = SaslState.HANDSHAKE
            return answer
        if key == SASL_HANDSHAKE:
            return self._handshake(connection, frame)
        api = API_BY_KEY.get(key)
        return self._close_later(f"{api.name if api else 'an unknown request'} before SaslHandshake")

    def _handshake(self, connection: SecuredConnection, frame: memoryview) -> Buffers | Pending | None:
        route, ctx, request = self._dispatcher.read(connection, frame)
        wanted, again = request.mechanism, self._known_as is not None
        begin = self._options.mechanisms.get(wanted)
        if begin is None:
            self._options.counted("", False)
            connection.warn("authentication failed", error=f"the mechanism {wanted[:40]!r} is not enabled")
            if again:
                return self._close_later("")
            answer = self._dispatcher.answer(route, ctx, request, self._mechanisms(UnsupportedSaslMechanism.code))
            return self._answer_later(connection, answer)
        self._bare_tokens = ctx.version == 0
        if again and wanted != self._mechanism:
            self._state = SaslState.OTHER_WAY
        else:
            self._mechanism, self._conversation, self._state = wanted, begin(), SaslState.TOKENS
        return self._dispatcher.answer(route, ctx, request, self._mechanisms(ErrorCode.none))

    def _mechanisms(self, code: ErrorCode) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(error_code=code, mechanisms=tuple(self._options.mechanisms))

    # -- tokens

    def _bare_token(self, connection: SecuredConnection, token: bytes) -> Buffers | Pending | None:
        def answer(step: Step) -> Buffers:
            return INT32.pack(len(step.data)) + step.data

        return self._evaluate(connection, token, answer, lambda _: None)

    def _authenticate(self, connection: SecuredConnection, frame: memoryview) -> Buffers | Pending | None:
        route, ctx, request = self._dispatcher.read(connection, frame)
        if request is None:
            raise CloseConnectionError(f"api_versions version {ctx.version} while the client authenticates")
        write = partial(self._dispatcher.answer, route, ctx, request)
        if ctx.api_key != SASL_AUTHENTICATE:
            self._options.counted(self._mechanism, False)
            return self._answer_later(connection, write(IllegalSaslState()))

        def answer(step: Step) -> Buffers | None:
            lifetime = self._session_lifetime() if isinstance(step, Success) else timedelta(0)
            return write(_response(ErrorCode.none, "", step.data, lifetime))

        def refuse(error: AuthenticationError) -> Buffers | None:
            return write(_response(ErrorCode.sasl_authentication_failed, str(error), b"", timedelta(0)))

        return self._evaluate(connection, request.auth_bytes, answer, refuse)

    def _evaluate(
        self,
        connection: SecuredConnection,
        token: bytes,
        answer: Callable[[Step], Buffers | None],
        refuse: Callable[[AuthenticationError], Buffers | None],
    ) -> Buffers | Pending | None:
        try:
            if len(token) > MOST_TOKEN_BYTES:
                raise invalid_credentials(self._mechanism)
            step = self._conversation.evaluate(token)
            if not isinstance(step, Challenge | Success):
                return self._evaluate_later(connection, step, answer, refuse)
            self._took(connection, step)
        except AuthenticationError as error:
            self._note_failure(connection, error)
            return self._answer_later(connection, refuse(error))
        except Exception as error:  # noqa: BLE001 - a bug of a mechanism closes only its connection
            return self._close_later(self._noted(error))
        return answer(step)

    def _evaluate_later(
        self,
        connection: SecuredConnection,
        step: Awaitable[Step],
        answer: Callable[[Step], Buffers | None],
        refuse: Callable[[AuthenticationError], Buffers | None],
    ) -> Pending:
        """As `_evaluate`, for a step that is not decided at once: a refusal's delay is part of the wait."""

        async def evaluate() -> Buffers | None:
            try:
                found = await step
                self._took(connection, found)
            except AuthenticationError as error:
                self._note_failure(connection, error)
                refusal = refuse(error)
                await self._clock.machine.sleep(self._options.delay_ms)
                if refusal is None:
                    raise CloseConnectionError("authentication failed") from error
                connection.close_after_reply()
                return refusal
            except Exception as error:
                reason = self._noted(error)
                await self._clock.machine.sleep(self._options.delay_ms)
                raise CloseConnectionError(reason) from error
            return answer(found)

        work = asyncio.ensure_future(evaluate())
        return _pending(work, work.result)

    def _took(self, connection: SecuredConnection, step: Step) -> None:
        """Go on after a good token."""
        if isinstance(step, Challenge):
            return
        if self._known_as not in (None, step.principal):
            raise AuthenticationError(
                f"Cannot change principals during re-authentication from {_shown(self._known_as)}: "
                f"{_shown(step.principal)}"
            )
        self._known_as = step.principal
        lifetime_ms = self._session_ms = self._lifetime_ms(step.expires_ms)
        self._session_end_ms = None if lifetime_ms is None else self._clock.monotonic_ms() + lifetime_ms
        self._state = SaslState.OPEN
        self._options.counted(self._mechanism, True)
        connection.authenticated(step.principal)
        if lifetime_ms is None:
            connection.dispatcher = self._dispatcher

    def _note_failure(self, connection: SecuredConnection, error: AuthenticationError) -> None:
        self._options.counted(self._mechanism, False)
        connection.warn("authentication failed", mechanism=self._mechanism, error=str(error))

    def _noted(self, error: Exception) -> str:
        """Why the connection is closed without an answer."""
        self._options.counted(self._mechanism, False)
        if isinstance(error, CloseConnectionError):
            return str(error)
        logger.error("unexpected error while a client authenticated", mechanism=self._mechanism, exc_info=error)
        return "an unexpected error"

    # -- sessions

    def _lifetime_ms(self, expires_ms: int | None) -> float | None:
        """The time in which the client must have authenticated again; None for never."""
        limits: list[float] = []
        reauth_ms = self._options.reauth_ms.get(self._mechanism, 0)
        if reauth_ms > 0:
            limits.append(reauth_ms)
        if expires_ms is not None:
            limits.append(max(expires_ms - self._clock.wall_ms(), 0))
        return min(limits) if limits else None

    def _session_lifetime(self) -> timedelta:
        return timedelta(milliseconds=min(self._session_ms or 0, LONGEST_SESSION_MS))

    def _open(self, connection: SecuredConnection, frame: memoryview) -> Buffers | Pending | None:
        now_ms = self._clock.monotonic_ms()
        if _key_of(frame) == SASL_HANDSHAKE:
            last_ms = self._began_again_ms
            if last_ms is None or now_ms - last_ms >= LEAST_REAUTHENTICATION_MS:
                self._began_again_ms = now_ms
                return self._handshake(connection, frame)
        if self._session_end_ms is not None and now_ms >= self._session_end_ms:
            raise CloseConnectionError("the session is over, and the client has not authenticated again")
        return self._dispatcher.dispatch(connection, frame)

    # -- refusals

    def _answer_later(self, connection: SecuredConnection, answer: Buffers | None) -> Pending:
        """Send the answer after the delay and close; without one only close."""

        def finish() -> Buffers:
            if answer is None:
                _close("authentication failed")
            connection.close_after_reply()
            return answer

        return self._after_delay(finish)

    def _close_later(self, reason: str) -> Pending:
        return self._after_delay(lambda: _close(reason or "authentication failed"))

    def _after_delay(self, finish: Callable[[], Any]) -> Pending:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end() -> None:
            if not over.done():
                over.set_result(None)

        self._wheel.add(self._options.delay_ms, end)
        return _pending(over, finish)


def _pending(work: asyncio.Future[Any], finish: Callable[[], Buffers | None]) -> Pending:
    """A reply to come; nothing is left to do if the client goes meanwhile."""
    return Pending(work, lambda: None if work.cancelled() else finish(), exclusive=True, only_reads=True)


def _close(reason: str) -> NoReturn:
    raise CloseConnectionError(reason)


def _response(code: ErrorCode, message: str, data: bytes, lifetime: timedelta) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=data, session_lifetime=lifetime)


def _key_of(frame: memoryview) -> int:
    """The API key of a request; -1 if it is too short for one."""
    return int.from_bytes(frame[:_KEY_BYTES], "big") if len(frame) >= _KEY_BYTES else -1


def _shown(principal: Principal | None) -> str:
    return f"{principal.type}.{principal.name}" if principal else ""
