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

Where thousands of partitions change, that takes several decisions, each of which changes some of them
(`broker_changes.MOST_IN_A_STEP`). A broker gives its leaderships away before it is fenced, and takes them over after it
was unfenced, so whatever happens between two steps, the next heartbeat goes on.

Deviation: a broker that may shut down has no session any more, and neither has one that was fenced before the
controller was started. In Kafka they have, so that a new run of them has to wait until that is over. There is nothing
to wait for: they lead nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import Any

from kio.schema.broker_heartbeat.v2 import BrokerHeartbeatRequest

from controller import broker_changes
from controller.broker_changes import MOST_IN_A_STEP
from controller.decision import ConfigSchema, Decision
from controller.registration import require_epoch
from metadata.brokers import BrokerRegistration
from metadata.image import MetadataImage
from protocol.metadata.brokers import BrokerRegistrationChangeRecord

NEVER = -1


class BrokerControlState(Enum):
    """The state of a broker; see the table above."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    MAY_SHUT_DOWN = auto()


class Fencing(Enum):
    """How far the fencing of a silent broker has come; it is NOT_NEEDED if the broker was heard of, or is fenced."""

    NOT_NEEDED = auto()
    UNDER_WAY = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The answer to a heartbeat; before that, if the change `is_unfinished`, its next step is to be decided."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    is_unfinished: bool


@dataclass(slots=True)
class _Session:
    """The state of one incarnation: when it was heard of, how far it is, and where its shutdown began.

    `may_take_over`: there may be partitions without a leader that it is to lead.
    """

    epoch: int
    contact_ms: float
    metadata_offset: int = NEVER
    shutdown_offset: int = NEVER
    may_take_over: bool = True


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
        """Begin the session of a broker that was registered anew, unless it is the same incarnation."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            self._sessions[broker_id] = _Session(epoch, self._now_ms())
        else:
            session.contact_ms = self._now_ms()

    def touch(self, broker_id: int, epoch: int, metadata_offset: int) -> None:
        """Note that the broker was heard of."""
        self.begin(broker_id, epoch)
        self._sessions[broker_id].metadata_offset = metadata_offset

    def forget(self, broker_id: int) -> None:
        """Forget a broker that is not registered any more."""
        self._sessions.pop(broker_id, None)

    def forget_silent(self, broker_id: int) -> None:
        """End the session of a broker that was fenced as it was silent, unless it was heard of meanwhile."""
        if not self.is_alive(broker_id):
            self.forget(broker_id)

    def refused(self, broker_id: int) -> None:
        """Undo a heartbeat whose records were refused: all is as before."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.shutdown_offset, session.may_take_over = NEVER, True

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

    def may_take_over(self, broker_id: int) -> bool:
        """Whether there may be partitions without a leader that the broker is to lead."""
        return self._sessions[broker_id].may_take_over

    def took_over(self, broker_id: int, *, all_of_them: bool) -> None:
        """Note that the broker was elected in some of the partitions that it is to lead, or in all of them."""
        self._sessions[broker_id].may_take_over = not all_of_them

    # -- controlled shutdown

    def shutdown_moved(self, broker_id: int, offset: int) -> None:
        """Note that the last record which took something from a broker that shuts down is at `offset`."""
        self._sessions[broker_id].shutdown_offset = offset

    def shutdown_ended(self, broker_id: int) -> None:
        """Note that the broker is fenced, which ends a controlled shutdown."""
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
) -> Decision[HeartbeatReply]:
    """Note the heartbeat in `sessions`, and change the broker's state if it is time for that.

    The sessions are noted at once, whether the records become durable or not. Raises StaleBrokerEpoch.
    """
    broker = require_epoch(image, request.broker_id, request.broker_epoch)
    current = _state(broker, sessions)
    state = _next_state(image, schema, broker, request, current, sessions)
    sessions.touch(broker.id, broker.epoch, request.current_metadata_offset)
    records, is_unfinished = _step(image, schema, broker.id, current, state, sessions)
    if state is BrokerControlState.UNFENCED:
        sessions.took_over(broker.id, all_of_them=not is_unfinished)
    elif state is not BrokerControlState.CONTROLLED_SHUTDOWN:
        sessions.shutdown_ended(broker.id)
    elif records or current is not state:
        sessions.shutdown_moved(broker.id, next_offset + len(records) - 1)
    failed, is_last = broker_changes.directories_failed(
        broker_changes.image_after(image, records), schema, broker.id, request.offline_log_dirs
    )
    records += [*failed, *_cordoned(broker, request)]
    if state is BrokerControlState.MAY_SHUT_DOWN:
        sessions.end(broker.id)
    reply = HeartbeatReply(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=state in (BrokerControlState.FENCED, BrokerControlState.MAY_SHUT_DOWN),
        should_shut_down=state is BrokerControlState.MAY_SHUT_DOWN,
        is_unfinished=is_unfinished or not is_last,
    )
    return Decision(records, reply)


def _state(broker: BrokerRegistration, sessions: BrokerSessions) -> BrokerControlState:
    if sessions.is_shutting_down(broker.id):
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.FENCED if broker.fenced else BrokerControlState.UNFENCED


def _next_state(
    image: MetadataImage,
    schema: ConfigSchema,
    broker: BrokerRegistration,
    request: BrokerHeartbeatRequest,
    current: BrokerControlState,
    sessions: BrokerSessions,
) -> BrokerControlState:
    """See the table above."""
    match current:
        case BrokerControlState.FENCED:
            if request.want_shut_down:
                return BrokerControlState.MAY_SHUT_DOWN
            has_caught_up = request.current_metadata_offset >= broker.epoch
            return (
                BrokerControlState.UNFENCED if has_caught_up and not request.want_fence else BrokerControlState.FENCED
            )
        case BrokerControlState.UNFENCED if request.want_fence:
            return BrokerControlState.MAY_SHUT_DOWN if request.want_shut_down else BrokerControlState.FENCED
        case BrokerControlState.UNFENCED if request.want_shut_down:
            leads = broker_changes.leads_something(image, broker.id)
            may_go = not leads and not broker_changes.needs_steps(image, schema, broker.id)
            return BrokerControlState.MAY_SHUT_DOWN if may_go else BrokerControlState.CONTROLLED_SHUTDOWN
        case BrokerControlState.CONTROLLED_SHUTDOWN:
            leads = broker_changes.leads_something(image, broker.id)
            may_go = not leads and sessions.may_shut_down(broker.id, image)
            return BrokerControlState.MAY_SHUT_DOWN if may_go else BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.UNFENCED


def _step(
    image: MetadataImage,
    schema: ConfigSchema,
    broker_id: int,
    current: BrokerControlState,
    state: BrokerControlState,
    sessions: BrokerSessions,
) -> tuple[list[Any], bool]:
    """The records of the next step towards a state, and whether more may follow."""
    match state:
        case BrokerControlState.UNFENCED if current is BrokerControlState.FENCED:
            changes = broker_changes.unfence(image, schema, broker_id)
        case BrokerControlState.UNFENCED if sessions.may_take_over(broker_id):
            changes = broker_changes.take_over(image, schema, broker_id)
        case BrokerControlState.CONTROLLED_SHUTDOWN:
            changes = broker_changes.begin_controlled_shutdown(image, schema, broker_id)
        case _:  # few partitions are left for one that shuts down, and no broker asks to be fenced otherwise
            return [] if state is current else broker_changes.fence(image, schema, broker_id), False
    records = list(islice(changes, MOST_IN_A_STEP))
    return records, len(records) == MOST_IN_A_STEP


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
) -> Decision[Fencing]:
    """The next step of fencing a broker whose session is over."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch or broker.fenced or sessions.is_alive(broker_id):
        return Decision([], Fencing.NOT_NEEDED)
    records, is_last = broker_changes.fence_in_steps(image, schema, broker_id)
    return Decision(records, Fencing.DONE if is_last else Fencing.UNDER_WAY)
