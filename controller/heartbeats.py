"""BrokerHeartbeat, and the sessions of brokers (KIP-631, KIP-841; Kafka's `BrokerHeartbeatManager`).

Theory of operation. A broker that was registered is fenced. It reports with every heartbeat how far it has come in the
metadata; once that includes its own registration it is unfenced, and leads what it may. A broker that is not heard of
for the time of a session is fenced. One that wants to shut down gives its leaderships to others first
(controlled shutdown), and may go when all active brokers know of it:

| state | wants | next state |
| --- | --- | --- |
| fenced | to shut down | may shut down |
| fenced | to be unfenced | unfenced if it has caught up, else fenced |
| unfenced | to be fenced | fenced; may shut down if it wants that too |
| unfenced | to shut down | controlled shutdown; may shut down if it leads nothing |
| controlled shutdown | anything | may shut down once it leads nothing and all active brokers know that |

Who was heard of when, and what it knows, is in no log: a controller that starts gives every broker that is not fenced
a new session.

Deviation: a broker that may shut down has no session any more, and neither has one that was fenced before the
controller was started. In Kafka they have, so that a new run of them has to wait until that is over. There is nothing
to wait for: they lead nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from kio.schema.broker_heartbeat.v2 import BrokerHeartbeatRequest

from controller import broker_changes
from controller.decision import ConfigSchema, Decision
from controller.registration import require_epoch
from metadata.brokers import BrokerRegistration
from metadata.image import MetadataImage
from protocol.metadata.brokers import BrokerRegistrationChangeRecord

NEVER = -1


class State(Enum):
    """The state of a broker; see the table above."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    MAY_SHUT_DOWN = auto()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a broker is told."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


@dataclass(slots=True)
class _Session:
    """What is known of one incarnation: when it was heard of, how far it is, and where its shutdown began."""

    epoch: int
    contact_ms: float
    metadata_offset: int = NEVER
    shutdown_offset: int = NEVER


class BrokerSessions:
    """The sessions of all brokers but the controller's own, which lives as long as the controller.

    `own_offset` returns how far the own broker has come in the metadata.
    """

    def __init__(
        self, now_ms: Callable[[], float], timeout_ms: int, own_id: int, own_offset: Callable[[], int]
    ) -> None:
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms
        self._own_id = own_id
        self._own_offset = own_offset
        self._sessions: dict[int, _Session] = {}

    def begin(self, broker_id: int, epoch: int) -> None:
        """The broker was registered: its session begins anew, unless it is the same incarnation."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            self._sessions[broker_id] = _Session(epoch, self._now_ms())
        else:
            session.contact_ms = self._now_ms()

    def touch(self, broker_id: int, epoch: int, metadata_offset: int) -> None:
        """The broker was heard of."""
        self.begin(broker_id, epoch)
        self._sessions[broker_id].metadata_offset = metadata_offset

    def forget(self, broker_id: int) -> None:
        """The broker is not registered any more."""
        self._sessions.pop(broker_id, None)

    def end(self, broker_id: int) -> bool:
        """Let the session be over now; whether there is one."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.contact_ms = -math.inf
        return session is not None

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker's session is not over."""
        session = self._sessions.get(broker_id)
        return broker_id == self._own_id or (session is not None and not self._is_over(session))

    def over(self) -> list[tuple[int, int]]:
        """Id and epoch of the brokers whose session is over."""
        return [(broker_id, each.epoch) for broker_id, each in self._sessions.items() if self._is_over(each)]

    def _is_over(self, session: _Session) -> bool:
        return session.contact_ms + self._timeout_ms < self._now_ms()

    # -- controlled shutdown

    def shutdown_began(self, broker_id: int, offset: int) -> None:
        """What moved the broker's leaderships away ends at `offset`. Of several only the first counts."""
        session = self._sessions[broker_id]
        if session.shutdown_offset == NEVER:
            session.shutdown_offset = offset

    def shutdown_ended(self, broker_id: int) -> None:
        """The broker is fenced, which ends a controlled shutdown."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.shutdown_offset = NEVER

    def is_shutting_down(self, broker_id: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.shutdown_offset != NEVER

    def may_shut_down(self, broker_id: int, image: MetadataImage) -> bool:
        """Whether every active broker knows that the broker leads nothing any more."""
        offset = self._sessions[broker_id].shutdown_offset
        return all(offset <= known for known in self._active_offsets(image))

    def _active_offsets(self, image: MetadataImage) -> Iterator[int]:
        for broker in image.cluster.brokers.values():
            if not broker.fenced and not self.is_shutting_down(broker.id):
                session = self._sessions.get(broker.id)
                known = NEVER if session is None else session.metadata_offset
                yield self._own_offset() if broker.id == self._own_id else known


def decide(
    image: MetadataImage,
    request: BrokerHeartbeatRequest,
    schema: ConfigSchema,
    sessions: BrokerSessions,
    next_offset: int,
) -> Decision[Reply]:
    """Note the heartbeat in `sessions`, and change the broker's state if it is time for that.

    The sessions are noted at once, whether the records become durable or not. Raises StaleBrokerEpoch.
    """
    broker = require_epoch(image, request.broker_id, request.broker_epoch)
    current = _state(broker, sessions)
    state = _next_state(image, broker, request, current, sessions)
    records = [] if state is current else _records(image, schema, broker.id, state)
    sessions.touch(broker.id, broker.epoch, request.current_metadata_offset)
    image = broker_changes.image_after(image, records)
    records += broker_changes.directories_failed(image, schema, broker.id, request.offline_log_dirs)
    records += _cordoned(broker, request)
    if state is State.CONTROLLED_SHUTDOWN:
        sessions.shutdown_began(broker.id, next_offset + len(records) - 1)
    elif state is not State.UNFENCED:
        sessions.shutdown_ended(broker.id)
    if state is State.MAY_SHUT_DOWN:
        sessions.end(broker.id)
    reply = Reply(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=state in (State.FENCED, State.MAY_SHUT_DOWN),
        should_shut_down=state is State.MAY_SHUT_DOWN,
    )
    return Decision(records, reply)


def _state(broker: BrokerRegistration, sessions: BrokerSessions) -> State:
    if sessions.is_shutting_down(broker.id):
        return State.CONTROLLED_SHUTDOWN
    return State.FENCED if broker.fenced else State.UNFENCED


def _next_state(
    image: MetadataImage,
    broker: BrokerRegistration,
    request: BrokerHeartbeatRequest,
    current: State,
    sessions: BrokerSessions,
) -> State:
    """See the table above."""
    match current:
        case State.FENCED:
            if request.want_shut_down:
                return State.MAY_SHUT_DOWN
            has_caught_up = request.current_metadata_offset >= broker.epoch
            return State.UNFENCED if has_caught_up and not request.want_fence else State.FENCED
        case State.UNFENCED if request.want_fence:
            return State.MAY_SHUT_DOWN if request.want_shut_down else State.FENCED
        case State.UNFENCED if request.want_shut_down:
            leads = broker_changes.leads_something(image, broker.id)
            return State.CONTROLLED_SHUTDOWN if leads else State.MAY_SHUT_DOWN
        case State.CONTROLLED_SHUTDOWN:
            leads = broker_changes.leads_something(image, broker.id)
            may_go = not leads and sessions.may_shut_down(broker.id, image)
            return State.MAY_SHUT_DOWN if may_go else State.CONTROLLED_SHUTDOWN
    return State.UNFENCED


def _records(image: MetadataImage, schema: ConfigSchema, broker_id: int, state: State) -> list[Any]:
    match state:
        case State.UNFENCED:
            return broker_changes.unfence(image, schema, broker_id)
        case State.CONTROLLED_SHUTDOWN:
            return broker_changes.begin_controlled_shutdown(image, schema, broker_id)
    return broker_changes.fence(image, schema, broker_id)


def _cordoned(broker: BrokerRegistration, request: BrokerHeartbeatRequest) -> list[Any]:
    """The directories that get no new replicas, if they have changed (KIP-1066)."""
    cordoned = request.cordoned_log_dirs
    if cordoned is None or set(cordoned) == set(broker.cordoned_directories or ()):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=tuple(cordoned)
        )
    ]


def fence_silent(
    image: MetadataImage, schema: ConfigSchema, sessions: BrokerSessions, broker_id: int, epoch: int
) -> Decision[bool]:
    """Fence a broker whose session is over; whether it was up. Its session is gone either way."""
    broker = image.cluster.brokers.get(broker_id)
    if not sessions.is_alive(broker_id):
        sessions.forget(broker_id)
    if broker is None or broker.epoch != epoch or broker.fenced or sessions.is_alive(broker_id):
        return Decision([], False)
    return Decision(broker_changes.fence(image, schema, broker_id), True)
