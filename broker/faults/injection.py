"""Faults of one API, injected around its handler. It is there only while a fault is set for the API.

How it works: a request is compared with each fault, in the order in which they were set. All that only observe count
it; of the others the first that matches strikes it. Before its handler runs, after what it writes is in the log, after
that is synced, or when its answer is ready, the fault does what it says: `Struck` goes through these phases. A handler
that begins at once does so here too, so that requests of a connection stay in order.
"""

from __future__ import annotations

import asyncio
import dataclasses
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from kio.schema.errors import ErrorCode

from broker.faults import partial
from broker.faults.crash import synced, written
from broker.faults.matching import Facts, Selection, facts_of, matches_head, select
from broker.faults.rendering import as_json
from broker.faults.spec import Drop, Phase, Then
from broker.faults.transports import Muted
from broker.network.request import CloseConnectionError
from broker.request_context import RequestContext
from protocol.errors import KafkaError, type_by_code

if TYPE_CHECKING:
    from broker.faults.spec import Fault
    from broker.network.connection import Connection
    from broker.network.dispatch import Route
    from timing.clock import Clock

CRASH_AFTER_REPLY_MS = 10.0
"""How long a broker that is to crash after a reply takes to send it."""


@dataclass(frozen=True, slots=True)
class Around:
    """The parts of the node that faults use.

    `crash` ends the process; in tests it may return. `crash_at_sync` ends it before a file in these folders is synced.
    """

    clock: Clock
    crash: Callable[[Then], None]
    crash_at_sync: Callable[[Iterable[str], Then], None]
    new_id: Callable[[], str]


@dataclass(slots=True)
class Watched(RequestContext):
    """The context of a request, which tells when the request's records are in the log."""

    appended: Future[None] | None = None

    def note_appended(self) -> None:
        if self.appended is not None and not self.appended.done():
            self.appended.set_result(None)


class Injection:
    """Stands in for the handler of one API. `faults` are those set for it, in order."""

    def __init__(self, route: Route, around: Around) -> None:
        self.faults: list[Fault] = []
        self._route = route
        self._around = around

    def handle(self, ctx: RequestContext, request: Any) -> Any:
        """Return the handler's answer, or what the faults make of it."""
        struck = Struck(self._route, self._around, ctx, request)
        for fault in self.faults:
            struck.consider(fault)
        return struck.handle()


class Struck:
    """One request, and the faults that it matches."""

    def __init__(self, route: Route, around: Around, ctx: RequestContext, request: Any) -> None:
        self._route = route
        self._api = route.api
        route.load()
        self._handle = route.own_handle
        self._around = around
        self._ctx = ctx
        self._request = request
        self._observers: list[Fault] = []
        self._acting: Fault | None = None
        self._selection = Selection(None, None, whole=True)

    @cached_property
    def _facts(self) -> Facts:
        return facts_of(self._api, self._ctx, self._request)

    @cached_property
    def _rendered(self) -> dict[str, Any]:
        return as_json(self._api, self._ctx, self._request)

    def consider(self, fault: Fault) -> None:
        """Let the fault strike the request if it matches, and if no other has done so."""
        only_observes = fault.spec.only_observes
        if (self._acting is not None and not only_observes) or not matches_head(fault.spec, self._ctx):
            return
        selection = select(fault.spec, self._facts)
        if selection is None or not fault.claim():
            return
        if only_observes:
            self._observers.append(fault)
        else:
            self._acting, self._selection = fault, selection

    def handle(self) -> Any:
        """See `Injection.handle`."""
        for fault in self._at(Phase.BEFORE):
            if fault is self._acting:
                self._ctx.begun = False  # nothing is appended yet: the connection's next request waits
                return self._before(fault)
        for fault in self._at(Phase.BEFORE_FSYNC):
            return self._crashing_at_sync(fault)
        if self._acting is None and all(fault.spec.phase is Phase.BEFORE for fault in self._observers):
            return self._handle(self._ctx, self._request)
        return self._after(self._begin(self._request))

    def _at(self, phase: Phase) -> Iterator[Fault]:
        """The faults that strike in this phase; each counts it as a hit."""
        for fault in (*self._observers, *((self._acting,) if self._acting is not None else ())):
            if fault.spec.phase is phase:
                fault.strike(self._rendered)
                yield fault

    # -- phases

    async def _before(self, fault: Fault) -> Any:
        spec = fault.spec
        await self._delay(fault)
        if spec.error is not None:
            return await self._failed_before(fault, spec.error)
        if spec.drop is Drop.REPLY:
            await _outcome(self._begin(self._request))
        if spec.drop is not None or spec.disconnect or spec.then is not None:
            return self._end(fault)
        return await self._after(self._begin(self._request))

    async def _failed_before(self, fault: Fault, code: ErrorCode) -> Any:
        """The error for what is selected; the rest of the request is handled as usual."""
        self._crash_after_reply(fault)
        error = type_by_code[code]()
        if self._api.name in partial.MARKED and (self._api.name != "offset_fetch" or not self._selection.whole):
            request = partial.harmless(self._api, self._request, self._selection)
            response = await _outcome(self._begin(request))
            return partial.marked(self._api, self._ctx, self._request, response, self._selection, code)
        if self._selection.whole or not partial.is_partial(self._api):
            raise error
        has = self._selection.has
        rest = partial.pruned(self._api, self._ctx, self._request, lambda *item: not has(*item))
        failures = self._failures(error)
        if rest is None:
            return failures
        response = await self._after(self._begin(rest))
        return partial.merged(self._api, response, failures)

    def _crashing_at_sync(self, fault: Fault) -> Any:
        """End the broker before what the request writes is synced.

        If the answer does not wait for the sync, it goes out, and a sync follows.
        """
        partitions = list(written(self._api, self._ctx, self._facts))
        assert fault.spec.then is not None, "a fault in this phase has it"
        self._around.crash_at_sync([partition.log.folder for partition in partitions], fault.spec.then)

        def sync() -> None:
            for partition in partitions:
                partition.log.flush()

        begun = self._begin(self._request)
        begun.work.add_done_callback(lambda _: self._around.clock.call_later(CRASH_AFTER_REPLY_MS, sync))
        return self._after(begun)

    async def _after(self, begun: _Begun) -> Any:
        """The phases after the handler has begun; returns the response."""
        fault = self._acting
        if self._has(Phase.AFTER_APPEND, Phase.AFTER_FSYNC):
            await begun.when_appended()
        for other in self._at(Phase.AFTER_APPEND):
            if other is fault:
                return await self._act(other, begun)
        if self._has(Phase.AFTER_FSYNC):
            await synced(written(self._api, self._ctx, self._facts), self._around.clock)
        for other in self._at(Phase.AFTER_FSYNC):
            if other is fault:
                return await self._act(other, begun)
        if self._has(Phase.BEFORE_REPLY):
            with suppress(KafkaError):  # an error is an answer too
                await _outcome(begun)
        for other in self._at(Phase.BEFORE_REPLY):
            if other is fault:
                return await self._act(other, begun)
        return await _outcome(begun)

    def _has(self, *phases: Phase) -> bool:
        faults = (*self._observers, *((self._acting,) if self._acting is not None else ()))
        return any(fault.spec.phase in phases for fault in faults)

    async def _act(self, fault: Fault, begun: _Begun) -> Any:
        """Do what the fault says once the handler has begun; returns the response."""
        spec = fault.spec
        await self._delay(fault)
        if spec.error is not None:
            return await self._failed_after(fault, spec.error, begun)
        if spec.drop is not None or spec.disconnect or spec.then is not None:
            begun.abandon()
            return self._end(fault)
        return await _outcome(begun)

    async def _failed_after(self, fault: Fault, code: ErrorCode, begun: _Begun) -> Any:
        """The error for what is selected, although it was done."""
        self._crash_after_reply(fault)
        if self._api.name in partial.MARKED:
            response = await _outcome(begun)
            return partial.marked(self._api, self._ctx, self._request, response, self._selection, code)
        error = type_by_code[code]()
        if self._selection.whole or not partial.is_partial(self._api):
            begun.abandon()
            raise error
        return partial.merged(self._api, await _outcome(begun), self._failures(error))

    def _failures(self, error: KafkaError) -> Any:
        """The answer of a request that has only what is selected."""
        selected = partial.pruned(self._api, self._ctx, self._request, self._selection.has)
        return self._route.failed_items(self._ctx, selected, error)

    # -- actions

    async def _delay(self, fault: Fault) -> None:
        if fault.spec.delay_ms:
            await self._around.clock.sleep(fault.spec.delay_ms)

    def _end(self, fault: Fault) -> None:
        """Do the actions after which there is no answer."""
        spec = fault.spec
        connection = cast("Connection", self._ctx.connection)
        if spec.drop is Drop.REQUEST:
            connection.handle_no_more()
        elif spec.drop is Drop.REPLY:
            connection.replace_transport(Muted)
        if spec.then is not None:
            self._around.crash(spec.then)
        if spec.disconnect:
            raise CloseConnectionError(f"fault {fault.id}")

    def _crash_after_reply(self, fault: Fault) -> None:
        then = fault.spec.then
        if then is not None:
            self._around.clock.call_later(CRASH_AFTER_REPLY_MS, lambda: self._around.crash(then))

    # -- the handler

    def _begin(self, request: Any) -> _Begun:
        """Have the handler begin."""
        loop = asyncio.get_running_loop()
        appended: Future[None] = loop.create_future()
        own = {field.name: getattr(self._ctx, field.name) for field in dataclasses.fields(RequestContext)}
        watched = Watched(**own, appended=appended)
        work: Future[Any]
        try:
            result = self._handle(watched, request)
        except KafkaError as error:
            work = loop.create_future()
            work.set_exception(error)
            return _Begun(work, None)
        self._ctx.begun = watched.begun
        if isinstance(result, Awaitable):
            waits = isinstance(result, CoroutineType)
            return _Begun(asyncio.ensure_future(result), appended if waits else None)
        work = loop.create_future()
        work.set_result(result)
        return _Begun(work, None)


@dataclass(slots=True)
class _Begun:
    """A handler that has begun. `appended`: None if all that it writes was in the log when it returned."""

    work: Future[Any]
    appended: Future[None] | None

    async def when_appended(self) -> None:
        if self.appended is not None:
            await asyncio.wait((self.work, self.appended), return_when=asyncio.FIRST_COMPLETED)

    def abandon(self) -> None:
        """Let the work go on, though nobody waits for the outcome."""
        self.work.add_done_callback(lambda work: work.cancelled() or work.exception())


async def _outcome(begun: _Begun) -> Any:
    """The response. Raises what the handler raised."""
    return await begun.work
