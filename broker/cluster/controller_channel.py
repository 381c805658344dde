"""Requests to the active controller, whoever that is (Kafka's `NodeToControllerChannelManager`).

Each channel has connections of its own, as a controller answers the requests of a connection one after the other.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from kio.schema.errors import ErrorCode

from broker.cluster.controller_quorum import ActiveController, ControllerQuorum
from broker.peers.call import Call
from broker.peers.clients import PeerClients
from broker.peers.errors import PeerError, PeerVersionError
from timing.clock import Clock

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
