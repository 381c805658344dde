"""Which of the cluster's controllers is the active one, as far as this node knows.

The observer of the metadata learns it from the answers to its fetches (`metadata_observer`); the channels to the
controller wait here until it is known, and again after a failover.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from broker.config.controllers import ControllerAddress

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
        """A controller has said who leads in an epoch; `endpoint` is None if it did not say where that is.

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
        """The active controller does not answer, or says that it is not active any more."""
        self.active = None
        self._known.clear()

    async def until_known(self) -> ActiveController:
        """The active controller, once it is known."""
        while self.active is None:
            await self._known.wait()
        return self.active
