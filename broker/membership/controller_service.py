"""The work of a node with the controller's role for the other nodes of its cluster: it is their only controller.

Brokers register and send heartbeats; those that fall silent are fenced. They read the metadata log as observers, and
send requests for changes here, their own and, in envelopes, those of their clients. From time to time leaderships
return to the preferred replicas. There is one controller: while this node is down, nothing can change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import structlog
from kio.schema.broker_heartbeat.v2 import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4 import BrokerRegistrationRequest

from broker.config.broker_config import BrokerConfig
from controller import broker_changes, heartbeats, move_leader, registration
from controller.broker_changes import MOST_IN_A_STEP
from controller.decision import Decision
from controller.heartbeats import BrokerSessions, Fencing, HeartbeatReply
from controller.local import LocalController
from controller.quorum.metadata_batches import MetadataLogError
from controller.quorum.metadata_log import MetadataLog
from controller.quorum.observers import MetadataObservers
from metadata.image import MetadataImage
from protocol.errors import BrokerIdNotRegistered
from protocol.metadata.brokers import Endpoint
from timing.clock import Clock

logger = structlog.get_logger(__name__)

LEAST_CHECK_MS = 50
UNCLEAN_ELECTION_MS = 5 * 60 * 1000
"""Kafka's `unclean.leader.election.interval.ms`."""


class Every(Protocol):
    """Runs jobs from time to time; see `broker.background.Periodic`."""

    def every(self, pause_ms: float, name: str, job: Callable[[], Awaitable[None]]) -> None: ...


class ControllerService:
    """See above.

    Attributes:
        log: the metadata log.
        observers: read the metadata log.
        sessions: of the registered brokers.
        endpoint: where the controller is reached by its first listener; known once that is open.
        answer: gives the reply to a request that came in an envelope.
    """

    def __init__(
        self, controller: LocalController, log: MetadataLog, clock: Clock, cluster_id: str, session_timeout_ms: int
    ) -> None:
        self.log = log
        self.observers = MetadataObservers(log, clock)
        self.sessions = BrokerSessions(
            clock.monotonic_ms, session_timeout_ms, controller.around.node_id, lambda: controller.image.offset
        )
        self.endpoint: Endpoint | None = None
        self.answer: Callable[[Any, memoryview], Awaitable[Any]]
        self._controller = controller
        self._schema = controller.around.schema
        self._cluster_id = cluster_id
        self._session_timeout_ms = session_timeout_ms

    def begin(self) -> None:
        """Give every broker that is not fenced a new session: nobody knows when it was last heard of."""
        for broker in self._controller.image.cluster.alive():
            self.sessions.begin(broker.id, broker.epoch)

    def start(self, periodic: Every, config: BrokerConfig) -> None:
        """Begin the periodic work."""
        check_ms = max(self._session_timeout_ms / 8, LEAST_CHECK_MS)
        periodic.every(check_ms, "sessions of brokers", self._fence_silent)
        periodic.every(UNCLEAN_ELECTION_MS, "unclean elections", self._elect_uncleanly)
        if config.boolean("auto.leader.rebalance.enable"):
            pause_ms = config.integer("leader.imbalance.check.interval.seconds") * 1000
            periodic.every(pause_ms, "preferred leaders", self._elect_preferred)

    # -- brokers

    async def register(self, request: BrokerRegistrationRequest) -> int:
        """Register a broker; return its epoch. Raises KafkaError."""

        def decide(image: MetadataImage) -> Decision[int | None]:
            decision = registration.decide(
                image,
                request,
                self._schema,
                cluster_id=self._cluster_id,
                is_alive=self.sessions.is_alive(request.broker_id),
                next_offset=self._controller.next_offset,
            )
            if decision.response is not None:
                self.sessions.begin(request.broker_id, decision.response)
            return decision

        epoch = None
        while epoch is None:
            epoch = await self._controller.submit(decide)
        logger.info("broker registered", broker=request.broker_id, epoch=epoch)
        return epoch

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> HeartbeatReply:
        """Note a broker's sign of life, and do what it asks for. Raises KafkaError."""

        def decide(image: MetadataImage) -> Decision[HeartbeatReply]:
            return heartbeats.decide(image, request, self._schema, self.sessions, self._controller.next_offset)

        try:
            reply = await self._controller.submit(decide)
            while reply.is_unfinished:
                reply = await self._controller.submit(decide)
        except MetadataLogError:
            self.sessions.refused(request.broker_id)
            raise
        return reply

    async def unregister(self, broker_id: int) -> None:
        """Take a broker out of the cluster. Raises KafkaError."""
        while not await self._controller.submit(lambda image: registration.unregister(image, self._schema, broker_id)):
            pass
        self.sessions.forget(broker_id)
        self.observers.forget(broker_id)

    async def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Let a broker lead a partition. Raises KafkaError."""
        await self._controller.submit(
            lambda image: move_leader.decide(image, self._schema, topic, partition, broker_id)
        )

    async def end_session(self, broker_id: int) -> None:
        """Fence a broker as if it had been silent for a session. Raises BrokerIdNotRegistered."""
        if not self.sessions.end(broker_id):
            raise BrokerIdNotRegistered(f"Broker {broker_id} has no session: expected another registered broker.")
        await self._fence_silent()

    # -- periodic work

    async def _fence_silent(self) -> None:
        for broker_id, epoch in self.sessions.over():
            fence = partial(
                heartbeats.fence_silent, schema=self._schema, sessions=self.sessions, broker_id=broker_id, epoch=epoch
            )
            fencing = Fencing.UNDER_WAY
            while fencing is Fencing.UNDER_WAY:
                fencing = await self._controller.submit(fence)
            self.sessions.forget_silent(broker_id)
            if fencing is Fencing.DONE:
                logger.warning("broker fenced: it was not heard of", broker=broker_id, for_ms=self._session_timeout_ms)

    async def _elect_uncleanly(self) -> None:
        await self._elect(broker_changes.elect_uncleanly, "leaders elected that may lack records")

    async def _elect_preferred(self) -> None:
        await self._elect(broker_changes.elect_preferred, "preferred leaders elected")

    async def _elect(self, elect: Callable[..., list[Any]], event: str) -> None:
        """Change leaders until there is nothing left to change."""
        changed = MOST_IN_A_STEP
        while changed >= MOST_IN_A_STEP:
            changed = await self._controller.submit(lambda image: _counted(elect(image, self._schema, MOST_IN_A_STEP)))
            if changed:
                logger.info(event, partitions=changed)


def _counted(records: list[Any]) -> Decision[int]:
    return Decision(records, len(records))
