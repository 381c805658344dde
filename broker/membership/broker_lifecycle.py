"""This node as a broker of its cluster: registration, heartbeats, shutdown (Kafka's `BrokerLifecycleManager`, KIP-631).

Theory of operation. The node's life in the cluster goes through these states, in this order:

| state      | heartbeats say           | left when                                                  |
| ---------- | ------------------------ | ---------------------------------------------------------- |
| NEW        | (none are sent)          | the controller has registered the node: it has an epoch    |
| FENCED     | that it wants to be fenced | the node can serve (`unfence`)                           |
| UNFENCING  | that it wants to serve   | an answer says that it is not fenced                       |
| RUNNING    | that it wants to serve   | the node is to stop (`shut_down`)                          |
| LEAVING    | that it wants to shut down | an answer says that it may, as its leaders have moved    |
| GONE       | (none are sent)          |                                                            |

The controller unfences a node only once its image has the node's own registration, so nobody is served from an image
in which an earlier run of this node still leads. A node whose session has lapsed is fenced by the controller, and
unfenced with its next heartbeat. A node does not join a cluster with features at levels that it does not know
(`unserved`, KIP-584).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from broker.membership.controller_channel import ControllerChannel
from broker.peers.call import PeerError, entity_call
from controller.features import SUPPORTED
from metadata.image import MetadataImage
from protocol.metadata.brokers import Endpoint
from timing.clock import Clock

logger = structlog.get_logger(__name__)

RETRY_REGISTRATION_MS = 500
HEARTBEATS_MISSED = 2
"""After so many intervals without an answer a heartbeat is given up, and the next one says what holds by then."""
LEAVING_INTERVAL_MS = 100
"""Time between heartbeats while the controller moves leaders away."""
LONGEST_LEAVING_MS = 5 * 60 * 1000
"""How long leaders may take to move (`BrokerServer.shutdown`)."""

_FINAL = {
    ErrorCode.inconsistent_cluster_id: "the controllers belong to another cluster than the folders of log.dirs",
    ErrorCode.invalid_registration: (
        "the controller refuses the registration: an id of a folder of log.dirs is missing, or another broker has it"
    ),
    ErrorCode.unsupported_version: "the controller needs features that this node does not serve",
    ErrorCode.cluster_authorization_failed: "the controllers do not authorize this node (see super.users)",
}
"""Refusals that do not pass with time."""


def _reason(code: ErrorCode) -> str:
    """Why the controller has refused the registration."""
    if code is ErrorCode.duplicate_broker_registration:
        return "another run of this node id is still alive for the controller"
    return _FINAL.get(code, "the controller gives no other reason, see its log")


class RegistrationError(Exception):
    """The controllers do not take this node; the message says why."""


class LifecycleState(Enum):
    """See the table above."""

    NEW = auto()
    FENCED = auto()
    UNFENCING = auto()
    RUNNING = auto()
    LEAVING = auto()
    GONE = auto()


@dataclass(frozen=True, slots=True)
class Identity:
    """The facts that a node registers: one incarnation is one run of it."""

    node_id: int
    cluster_id: str
    incarnation_id: UUID
    listeners: Sequence[Endpoint]
    rack: str | None
    directories: Sequence[UUID]
    previous_epoch: int


@dataclass(frozen=True, slots=True)
class Intervals:
    """Kafka's settings `broker.heartbeat.interval.ms`, `broker.session.timeout.ms`, and that of the registration."""

    heartbeat_ms: int
    session_ms: int
    registration_ms: int


class BrokerLifecycle:
    """See the theory of operation above.

    `offset` gives the offset of the newest published image, `offline_directories` the ids of failed folders,
    `cordoned_directories` of those that get no new replicas.

    Attributes:
        epoch: the broker epoch of this run; -1 before it is registered.
    """

    def __init__(
        self,
        channel: ControllerChannel,
        clock: Clock,
        intervals: Intervals,
        offset: Callable[[], int],
        offline_directories: Callable[[], Sequence[UUID]],
        cordoned_directories: Callable[[], Sequence[UUID]] = tuple,
    ) -> None:
        self.epoch = -1
        self.state = LifecycleState.NEW
        self._channel = channel
        self._clock = clock
        self._intervals = intervals
        self._offset = offset
        self._offline_directories = offline_directories
        self._cordoned_directories = cordoned_directories
        self._identity: Identity
        self._task: asyncio.Task[None] | None = None
        self._sleeping: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._answered_ms = 0.0
        self._was_running = False

    # -- registration

    async def register(self, identity: Identity) -> int:
        """Register this run of the node, and begin heartbeats; return the broker epoch.

        While an earlier run is taken for alive, the controller refuses: that is tried again. Raises RegistrationError
        when it is refused for good, or time is up.
        """
        self._identity = identity
        deadline = self._clock.monotonic_ms() + self._intervals.registration_ms
        said = None
        while True:
            left_ms = deadline - self._clock.monotonic_ms()
            try:
                answer = await self._channel.send(entity_call(_registration(identity)), max(left_ms, 1))
            except PeerError as error:
                raise RegistrationError(f"node {identity.node_id} could not be registered: {error}") from error
            if answer.error_code is ErrorCode.none:
                break
            code = answer.error_code
            if code in _FINAL or left_ms <= RETRY_REGISTRATION_MS:
                raise RegistrationError(f"node {identity.node_id} was not registered ({code.name}): {_reason(code)}")
            if code is not said:
                logger.info("registration is tried again", code=code.name)
                said = code
            await self._clock.sleep(RETRY_REGISTRATION_MS)
        self.epoch = answer.broker_epoch
        self.state = LifecycleState.FENCED
        self._answered_ms = self._clock.monotonic_ms()
        logger.info("registered", node=identity.node_id, broker_epoch=self.epoch)
        self._task = asyncio.get_running_loop().create_task(self._beat(), name="broker-heartbeats")
        return self.epoch

    async def unfence(self) -> None:
        """Return once the controller has unfenced the node."""
        self.state = LifecycleState.UNFENCING
        await self._until(lambda: self.state is not LifecycleState.UNFENCING)

    # -- the end

    async def shut_down(self) -> None:
        """Let the controller move leaders away; return once that is done, or cannot be expected any more.

        If no heartbeat is answered for a session, the controller has moved the leaders anyway.
        """
        if self.state not in (LifecycleState.RUNNING, LifecycleState.UNFENCING):
            return
        self.state = LifecycleState.LEAVING
        begun_ms = self._clock.monotonic_ms()

        def is_over() -> bool:
            now_ms = self._clock.monotonic_ms()
            lapsed = self.silence_ms > self._intervals.session_ms
            return self._is_gone or lapsed or now_ms - begun_ms > LONGEST_LEAVING_MS

        await self._until(is_over)
        if not self._is_gone:
            logger.warning("controlled shutdown given up: the controller does not answer, or leaders have not moved")

    async def stop(self) -> None:
        """Send no more heartbeats."""
        self.state = LifecycleState.GONE
        self._channel.close()
        self._wake()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _until(self, is_over: Callable[[], bool]) -> None:
        self._wake()
        while not is_over():
            self._changed.clear()
            await self._changed.wait()

    # -- heartbeats

    async def _beat(self) -> None:
        while not self._is_gone:
            said = self.state
            try:
                answer = await self._channel.send(
                    entity_call(self._heartbeat(), lowest=1), self._intervals.heartbeat_ms * HEARTBEATS_MISSED
                )
                self._answered(answer)
            except PeerError as error:
                logger.warning("heartbeat not answered", error=str(error))
            except Exception:  # without heartbeats the node would be fenced until its next start
                logger.exception("unexpected error of a heartbeat")
            self._changed.set()
            if not self._is_gone and (said is self.state or self.state is LifecycleState.RUNNING):
                await self._pause()

    @property
    def silence_ms(self) -> float:
        """Time since the last answer to a heartbeat."""
        return self._clock.monotonic_ms() - self._answered_ms

    @property
    def is_fenced_again(self) -> bool:
        """Whether the controller has fenced the node after it was running."""
        return self.state is LifecycleState.UNFENCING and self._was_running

    @property
    def _is_gone(self) -> bool:
        return self.state is LifecycleState.GONE

    async def _pause(self) -> None:
        leaving = self.state is LifecycleState.LEAVING
        pause_ms = LEAVING_INTERVAL_MS if leaving else self._intervals.heartbeat_ms
        if self.state is LifecycleState.UNFENCING:
            pause_ms = min(pause_ms, LEAVING_INTERVAL_MS)
        self._sleeping = asyncio.ensure_future(self._clock.sleep(pause_ms))
        await asyncio.wait([self._sleeping])

    def _wake(self) -> None:
        """Send the next heartbeat now."""
        if self._sleeping is not None:
            self._sleeping.cancel()

    def _answered(self, answer: Any) -> None:
        if answer.error_code is not ErrorCode.none:
            logger.warning("heartbeat refused", code=answer.error_code.name)
            return
        self._answered_ms = self._clock.monotonic_ms()
        if self.state is LifecycleState.UNFENCING and not answer.is_fenced:
            logger.info("unfenced", broker_epoch=self.epoch)
            self.state, self._was_running = LifecycleState.RUNNING, True
        elif self.state is LifecycleState.RUNNING and answer.is_fenced:
            logger.warning("fenced by the controller: its session had lapsed", broker_epoch=self.epoch)
            self.state = LifecycleState.UNFENCING
        elif self.state is LifecycleState.LEAVING and answer.should_shut_down:
            self.state = LifecycleState.GONE

    def _heartbeat(self) -> Any:
        from kio.schema.broker_heartbeat.v2 import BrokerHeartbeatRequest

        return BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._offset(),
            want_fence=self.state is LifecycleState.FENCED,
            want_shut_down=self.state is LifecycleState.LEAVING,
            offline_log_dirs=tuple(self._offline_directories()),
            cordoned_log_dirs=tuple(self._cordoned_directories()),
        )


def _registration(identity: Identity) -> Any:
    from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener

    return BrokerRegistrationRequest(
        broker_id=identity.node_id,
        cluster_id=identity.cluster_id,
        incarnation_id=identity.incarnation_id,
        listeners=tuple(
            Listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in identity.listeners
        ),
        features=tuple(
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED.items()
        ),
        rack=identity.rack,
        log_dirs=tuple(identity.directories),
        previous_broker_epoch=identity.previous_epoch,
    )


def unserved(image: MetadataImage) -> list[str]:
    """List the features that the cluster has finalized and this release does not serve, a sentence each."""
    complaints = []
    for name, level in sorted(image.features.items()):
        lowest, highest = SUPPORTED.get(name, (0, 0))
        if not lowest <= level <= highest:
            serves = f"serves the levels {lowest} to {highest}" if highest else "does not serve this feature"
            complaints.append(
                f"the cluster has finalized {name} at level {level}, and this node {serves}: lower it first, for "
                f"instance with `kafka-features.sh downgrade --feature {name}={highest}`"
            )
    return complaints
