"""From a request frame to its reply: header, API table, decoding, the handler, and errors, all handled here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import structlog

from broker.network.answers import Later
from broker.network.ports import FindsHandlers, Handle, Handler
from broker.network.repeated import AFTER_CORRELATION_ID, CORRELATION_ID_AT, LONGEST_REPEATED_BYTES, Repeated
from broker.network.request import CloseConnectionError, NewRequest, Peer, Request
from protocol import headers
from protocol.api import messages
from protocol.api.row import API_VERSIONS_KEY, Api
from protocol.api.table import API_BY_KEY, API_TABLE, CONTROLLER_TABLE
from protocol.errors import KafkaError, UnknownServerError
from protocol.primitives import INT32, DecodeError

if TYPE_CHECKING:
    from broker.network.ports import Guards, RequestCounters, RequestMetrics, Throttles
    from timing.clock import Clock

logger = structlog.get_logger(__name__)

T = TypeVar("T")

Buffers = bytes | bytearray | list[Any]
"""A reply frame: one buffer, or the list of its parts."""

LATER = (Later, asyncio.Future, CoroutineType)
"""What a handler returns if the response comes later."""


DRAIN_MS = 3000
"""How long a stopping node waits for work whose connection is gone."""

_unpack_start = Struct(">ii").unpack_from  # API key and version, correlation id


@dataclass(eq=False, slots=True)
class Pending:
    """A reply to come: `finish()` returns it once `work` is done. The next request waits for an `exclusive` one.

    `finish` must be called once, even if nobody waits for the reply. It raises CloseConnectionError.
    """

    work: asyncio.Future[Any]
    finish: Callable[[], Buffers | None]
    exclusive: bool
    only_reads: bool

    def abandon(self) -> None:
        """The connection is lost. Work that has begun runs to its end, so that nothing stays half done."""
        if self.only_reads:
            self.work.cancel()


class ByVersion(dict[int, T]):
    """Values by version of an API, each made when first used."""

    def __init__(self, make: Callable[[int], T]) -> None:
        self._make = make

    def __missing__(self, version: int) -> T:
        made = self[version] = self._make(version)
        return made


class Route:
    """One row of the table of APIs with its handler, which `find` imports when the first request comes."""

    def __init__(
        self,
        api: Api,
        metrics: RequestMetrics,
        find: FindsHandlers,
        guard: Guards | None = None,
        *,
        of_controller: bool = False,
    ) -> None:
        self.api = api
        self._find = find
        self._metrics = metrics
        self._guard = guard
        self._of_controller = of_controller
        self.exclusive = not api.pipelined
        self.only_reads = api.only_reads
        self.repeats = api.repeats
        self.loaded = False
        self.handler: Handler
        self.counters: RequestCounters
        self.handle: Handle
        self.own_handle: Handle
        self._instead: Handle | None = None
        self.decode: Callable[[int, memoryview, int], Any] | None
        self.read = ByVersion(partial(messages.request_reader, api.key))
        self.write = ByVersion(self._writer)
        self.prepare: Handle | None
        self.failed: Callable[[Any, Any, KafkaError], Any]
        self.failed_items: Callable[[Any, Any, KafkaError], Any]

    def load(self) -> Handler:
        """The handler, which is imported once."""
        if self.loaded:
            return self.handler
        handler = self.handler = self._find(self.api, of_controller=self._of_controller)
        self.failed = handler.failed or self._failed
        self.failed_items = handler.failed or self._failed_items
        self.counters = self._metrics.requests[self.api.name]
        guard, self.own_handle = self._guard, handler.handle
        if guard is not None:
            self.own_handle = guard.guarded(self.api, handler, of_controller=self._of_controller)
        self.handle = self.own_handle if self._instead is None else self._instead
        self.decode, self.prepare = handler.decode, handler.prepare
        self.loaded = True
        return handler

    def intercept(self, instead: Handle | None) -> None:
        """Have requests handled by `instead`, None for the handler itself, which is still imported when first used."""
        self._instead = instead
        if self.loaded:
            self.handle = self.own_handle if instead is None else instead

    def _failed(self, ctx: Any, request: Any, error: KafkaError) -> Any:
        """The answer of a request that failed as a whole, made from the schema."""
        from protocol.api import failure  # a node whose requests all succeed does without

        self.failed = partial(failure.failed, self.api)
        return self.failed(ctx, request, error)

    def _failed_items(self, ctx: Any, request: Any, error: KafkaError) -> Any:
        """The answer of a request all of whose items failed, each by itself."""
        from protocol.api import failure

        return failure.of_items(self.api, ctx, request, error)

    def _writer(self, version: int) -> Callable[[Any, int], Buffers]:
        encode = self.load().encode
        if encode is None:
            return messages.response_writer(self.api.key, version)
        return lambda response, correlation_id: encode(response, version, correlation_id)


class Client(Peer, Protocol):
    """The connection that a request came on."""

    repeated: Repeated | None
    last_active_ms: float


class Dispatcher:
    """Routes frames to handlers. There is one for the whole node.

    `controller_listeners` are the names of the listeners on which the node serves other nodes as their controller.
    `guard` stands before the handlers, None without an authorizer.
    """

    def __init__(
        self,
        new_request: NewRequest,
        find: FindsHandlers,
        metrics: RequestMetrics,
        clock: Clock,
        throttling: Throttles,
        controller_listeners: frozenset[str] = frozenset(),
        guard: Guards | None = None,
    ) -> None:
        self._metrics = metrics
        self._guard = guard
        self._clock = clock
        self._monotonic_ms = clock.monotonic_ms
        self._named: Callable[[Any], None] | None = None
        self.use(new_request, throttling)
        self._routes = {api.key: Route(api, metrics, find, guard) for api in API_TABLE}
        self._controller_listeners = controller_listeners
        self._controller_routes = {
            api.key: Route(api, metrics, find, guard, of_controller=True) for api in CONTROLLER_TABLE
        }
        self._tasks: set[asyncio.Future[Any]] = set()
        self.dispatch: Callable[[Client, memoryview], Buffers | Pending | None] = self._dispatch
        """Handle one request; a journal puts its own function in place of this one. See `_dispatch`."""
        self.pipelined_keys = frozenset(api.key for api in API_TABLE if api.pipelined)

    def use(self, new_request: NewRequest, throttling: Throttles) -> None:
        """Give requests these parts of the node from now on."""
        self._new_request = new_request if self._named is None else self._noting(new_request, self._named)
        self._throttling = throttling

    def note_clients(self, named: Callable[[Any], None]) -> None:
        """Note the client id of each request at its connection; `named` is called with one whose id has changed."""
        self._named = named
        self._new_request = self._noting(self._new_request, named)

    @staticmethod
    def _noting(new_request: NewRequest, named: Callable[[Any], None]) -> NewRequest:
        def noting(connection: Any, key: int, version: int, correlation_id: int, client_id: str | None) -> Any:
            if connection.client_id != client_id:
                connection.client_id = client_id
                named(connection)
            return new_request(connection, key, version, correlation_id, client_id)

        return noting

    def serve(self, api: Api, handle: Handle) -> None:
        """Serve one more API on the listeners of a broker, by a function that needs more of the node than others."""
        handler = Handler(handle)
        self._routes[api.key] = Route(api, self._metrics, lambda *_, **__: handler, self._guard)

    def route(self, api_key: int) -> Route:
        """The route of an API."""
        return self._routes[api_key]

    def _dispatch(self, connection: Client, frame: memoryview) -> Buffers | Pending | None:
        """Handle one request. Returns the reply frame, a reply to come, or None if none is sent (acks=0).

        Raises CloseConnectionError for an API, version or body that Kafka does not answer either.
        """
        repeated = connection.repeated
        if (
            repeated is not None
            and repeated.size == len(frame)
            and repeated.rest == bytes(frame[AFTER_CORRELATION_ID:])
            and (start := _unpack_start(frame))[0] == repeated.key_and_version
        ):
            route, ctx, request = repeated.route, repeated.ctx, repeated.request
            ctx.correlation_id = start[1]  # the previous request has been answered: its API is exclusive
            if self._throttling.enabled:
                ctx.size = len(frame)
        else:
            repeated = None
            route, ctx, request = self.read(connection, frame)
            if request is None:
                return self._too_new(route, ctx.correlation_id)
        started = connection.last_active_ms  # when the request arrived, or when its wait ended
        try:
            response = route.handle(ctx, request)
        except Exception as error:  # noqa: BLE001 - the one edge where errors become answers
            response = self._failed(route, ctx, request, error)
        if isinstance(response, LATER):
            return self._pending(route, ctx, request, response, started)
        if repeated is not None and not self._throttling.enabled:
            return self._answer_again(repeated, response, started)
        return self._encode(route, ctx, request, response, started)

    def _answer_again(self, repeated: Repeated, response: Any, started: float) -> Buffers | None:
        """The reply frame of a repeated request; usually the response is that of the last time."""
        route, ctx = repeated.route, repeated.ctx
        answered = repeated.answered
        if answered and response is answered[0][0]:
            route.counters.done(ctx.version, self._monotonic_ms() - started)
            frame = bytearray(answered[0][1])
            INT32.pack_into(frame, CORRELATION_ID_AT, ctx.correlation_id)
            return frame
        written = self._encode(route, ctx, repeated.request, response, started)
        if isinstance(written, bytearray) and len(written) <= LONGEST_REPEATED_BYTES:
            answered[:] = ((response, bytes(written)),)
        return written

    def read(self, connection: Client, frame: memoryview) -> tuple[Route, Any, Any]:
        """The request; None for ApiVersions in an unserved version. Raises CloseConnectionError."""
        try:
            key, version, correlation_id, client_id, body = headers.parse_request_header(frame)
        except DecodeError as error:
            raise CloseConnectionError(f"request header: {error}") from error
        routes, of_controller = self._routes, self._controller_listeners
        if of_controller and connection.listener_name in of_controller:
            routes = self._controller_routes
        route = routes.get(key)
        if route is None:
            raise CloseConnectionError(f"{API_BY_KEY[key].name}, which is not served on {connection.listener_name}")
        api = route.api
        ctx = self._new_request(connection, key, version, correlation_id, client_id)
        if not api.lowest <= version <= api.highest:
            if key == API_VERSIONS_KEY:
                return route, ctx, None
            raise CloseConnectionError(f"{api.name} version {version}; {api.lowest} to {api.highest} are served")
        if not route.loaded:
            route.load()
        if self._throttling.enabled:
            ctx.size = len(frame)
        try:
            if route.decode is not None:
                return route, ctx, route.decode(version, frame, body)
            ctx.body = bytes(frame[body:])  # slicing strings from bytes is cheaper than from a memoryview
            request, _ = route.read[version](ctx.body, 0)
            if route.prepare is not None:
                request = route.prepare(ctx, request)
        except DecodeError as error:
            raise CloseConnectionError(f"{api.name} v{version}: {error}") from error
        except Exception as error:
            self._unexpected(route, ctx, error)
            raise CloseConnectionError(f"{api.name} v{version} cannot be decoded") from error
        if route.repeats and len(frame) <= LONGEST_REPEATED_BYTES:
            start, _ = _unpack_start(frame)
            connection.repeated = Repeated(
                len(frame), start, bytes(frame[AFTER_CORRELATION_ID:]), route, ctx, request, []
            )
        return route, ctx, request

    def _pending(self, route: Route, ctx: Request, request: Any, response: Any, started: float) -> Pending:
        if self._throttling.enabled:
            self._throttling.spent(ctx)
        later = response if isinstance(response, Later) else Later(asyncio.ensure_future(response), _itself)
        self._tasks.add(later.future)
        finish = partial(self._finish, route, ctx, request, later, started, self._monotonic_ms())
        return Pending(later.future, finish, route.exclusive or not ctx.begun, route.only_reads)

    def _finish(
        self, route: Route, ctx: Request, request: Any, later: Later[Any, Any], started: float, waits_since: float
    ) -> Buffers | None:
        self._tasks.discard(later.future)
        if later.future.cancelled():
            return None
        try:
            response = later.then(later.future.result())
        except Exception as error:  # noqa: BLE001 - the same edge, later
            response = self._failed(route, ctx, request, error)
        return self._encode(route, ctx, request, response, started, waits_since)

    def _encode(
        self, route: Route, ctx: Request, request: Any, response: Any, started: float, waits_since: float | None = None
    ) -> Buffers | None:
        now = self._monotonic_ms()
        route.counters.done(ctx.version, now - started)
        if waits_since is not None:
            route.counters.waited(now - started, now - waits_since)
        if self._throttling.enabled:
            response = self._throttling.answer(ctx, response)
        if response is None:
            return None
        try:
            return route.write[ctx.version](response, ctx.correlation_id)
        except Exception as error:  # noqa: BLE001 - a response that cannot be written is a bug of its handler
            failed = self._failed(route, ctx, request, error)
        try:
            return route.write[ctx.version](failed, ctx.correlation_id)
        except Exception as error:
            self._unexpected(route, ctx, error)
            raise CloseConnectionError(f"{route.api.name} v{ctx.version} cannot be answered") from error

    def _failed(self, route: Route, ctx: Request, request: Any, error: BaseException) -> Any:
        """The response that reports a request's failure as a whole."""
        if isinstance(error, CloseConnectionError):
            raise error
        if not isinstance(error, KafkaError):
            self._unexpected(route, ctx, error)
            error = UnknownServerError()
        self._metrics.request_error(route.api.name, error.code)
        route.load()
        try:
            return route.failed(ctx, request, error)
        except CloseConnectionError:
            raise
        except Exception as second:
            self._unexpected(route, ctx, second)
            raise CloseConnectionError(f"{route.api.name} v{ctx.version} cannot be answered") from second

    def _unexpected(self, route: Route, ctx: Request, error: BaseException) -> None:
        logger.error("unexpected error in a handler", api=route.api.name, version=ctx.version, exc_info=error)

    def _too_new(self, route: Route, correlation_id: int) -> Buffers:
        """Answer ApiVersions in an unserved version, in version 0, which any client can read."""
        answer = route.load().too_new
        assert answer is not None, "only ApiVersions gets here"
        return messages.encode_response(route.api, answer(), 0, correlation_id)

    async def answer_enveloped(self, connection: Client, frame: memoryview) -> Buffers | None:
        """The reply frame of a request that came within another one. Raises CloseConnectionError."""
        result = self._dispatch(connection, frame)
        if isinstance(result, Pending):
            await asyncio.wait([result.work])
            return result.finish()
        return result

    def answer(self, route: Route, ctx: Request, request: Any, response: Any) -> Buffers | None:
        """The reply frame of a request that did not go through `dispatch`; `response` may be an error."""
        if isinstance(response, KafkaError):
            response = self._failed(route, ctx, request, response)
        return self._encode(route, ctx, request, response, self._monotonic_ms())

    async def drain(self) -> None:
        """Wait at most `DRAIN_MS` for running tasks, including those whose connection is gone."""
        clock = self._clock
        deadline = clock.monotonic_ms() + DRAIN_MS
        while self._tasks and clock.monotonic_ms() < deadline:
            await clock.sleep(5)
        if self._tasks:
            logger.warning("requests abandoned at shutdown", requests=len(self._tasks))


def _itself(response: Any) -> Any:
    return response
