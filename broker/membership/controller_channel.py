"""Requests to the active controller, whoever that is (Kafka's `NodeToControllerChannelManager`).

The observer of the metadata learns which controller is active from the answers to its fetches (`metadata_observer`);
the channels wait here until it is known, and again after a failover. Each channel has connections of its own, as a
controller answers the requests of a connection one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog
from kio.schema.errors import ErrorCode

from broker.config.controllers import ControllerAddress
from broker.peers.call import Call, PeerError, PeerVersionError
from broker.peers.client import PeerClients
from timing.clock import Clock

logger = structlog.get_logger(__name__)

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class ActiveController:
    """The leader of the quorum in an epoch."""

    node_id: int
    epoch: int
    host: str
    port: int


class ControllerQuorum:
    """The controllers that are configured, and the active one.

    Attributes:
        epoch: the newest epoch of the quorum that this node has heard of.
        active: the active controller; None while it is not known.
    """

    def __init__(self, configured: Sequence[ControllerAddress]) -> None:
        self.epoch = 0
        self.active: ActiveController | None = None
        self._named: ActiveController | None = None
        self._configured = configured
        self._next = 0
        self._known = asyncio.Event()
        self._on_elected: list[Callable[[ActiveController], None]] = []

    def when_elected(self, callback: Callable[[ActiveController], None]) -> None:
        """Call this with each new active controller."""
        self._on_elected.append(callback)

    def next_to_ask(self) -> ControllerAddress:
        """One of the configured controllers after the other, to ask which is the active one."""
        address = self._configured[self._next % len(self._configured)]
        self._next += 1
        return address

    def elected(self, node_id: int, epoch: int, endpoint: tuple[str, int] | None) -> None:
        """Note who leads in an epoch, as a controller says; `endpoint` is None if it did not say where that is.

        An older epoch changes nothing, nor does the same epoch without a leader (-1).
        """
        if epoch < self.epoch or node_id == NO_LEADER:
            if epoch > self.epoch:
                self.epoch = epoch
                self.lost()
            return
        if endpoint is None:
            endpoint = next(((each.host, each.port) for each in self._configured if each.node_id == node_id), None)
        new = None if endpoint is None else ActiveController(node_id, epoch, *endpoint)
        self.epoch = epoch
        if new is None or new == self.active:
            return
        if new != self._named:  # the others name one that was lost, until they notice
            logger.info("active controller", node=node_id, epoch=epoch, address=f"{new.host}:{new.port}")
        self.active = self._named = new
        self._known.set()
        for callback in self._on_elected:
            callback(new)

    def lost(self) -> None:
        """Note that the active controller does not answer, or says that it is not active any more."""
        self.active = None
        self._known.clear()

    async def until_known(self) -> ActiveController:
        """The active controller, once it is known."""
        while self.active is None:
            await self._known.wait()
        return self.active


T = TypeVar("T")

RETRY_MS = 50
"""The pause after an attempt that found no active controller."""


class NoControllerError(PeerError):
    """No active controller has answered in time; the request may have been handled all the same."""


class ControllerChannel:
    """Sends requests, and again after a failover, until the time is up."""

    def __init__(self, quorum: ControllerQuorum, clients: PeerClients, clock: Clock, request_timeout_ms: float) -> None:
        self._quorum = quorum
        self._clients = clients
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        self._waiting: set[asyncio.Future[ActiveController]] = set()
        self._closed = False
        quorum.when_elected(lambda active: clients.keep_only(active.host, active.port))

    async def send(self, call: Call[T], timeout_ms: float) -> T:
        """The active controller's answer, which must come within `timeout_ms`, over all attempts.

        A request whose connection was lost is sent again, though it may have been handled: as in Kafka, its second
        answer may then be that what was wanted is there already. Raises NoControllerError, and PeerVersionError if the
        controller does not serve the API.
        """
        deadline = self._clock.monotonic_ms() + timeout_ms
        why = "the active controller is not known"
        while True:
            controller = await self._known_until(deadline)
            left_ms = deadline - self._clock.monotonic_ms()
            if self._closed:
                raise NoControllerError(f"this node asks the controllers nothing more, as it stops: {why}")
            if controller is None or left_ms <= 0:
                raise NoControllerError(f"no controller has answered within {timeout_ms:.0f} ms: {why}")
            client = self._clients.of(controller.host, controller.port)
            try:
                answer = await client.send(call, min(left_ms, self._request_timeout_ms))
            except PeerVersionError:
                raise
            except PeerError as error:
                why = str(error)
            else:
                if getattr(answer, "error_code", None) is not ErrorCode.not_controller:
                    return answer
                why = f"{client} is not the active controller"
            await self._clock.sleep(RETRY_MS)

    async def _known_until(self, deadline: float) -> ActiveController | None:
        if self._closed or self._quorum.active is not None:
            return self._quorum.active
        known = asyncio.ensure_future(self._quorum.until_known())
        self._waiting.add(known)

        def give_up() -> None:
            known.cancel()

        timer = self._clock.call_later(deadline - self._clock.monotonic_ms(), give_up)
        try:
            await asyncio.wait([known])
        finally:
            timer.cancel()
            known.cancel()
            self._waiting.discard(known)
        return None if known.cancelled() else known.result()

    def close(self) -> None:
        """End the connections; what is in flight or waits fails, now and later."""
        self._closed = True
        self._clients.close()
        for known in self._waiting:
            known.cancel()
