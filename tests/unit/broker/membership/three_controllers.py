"""Three controllers that are made up, over a network in memory, of which the active one is lost in several ways."""

from __future__ import annotations

import asyncio
import uuid
from enum import Enum
from functools import partial
from typing import Any

from kio.schema.api_versions.v3.response import ApiVersion
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

from protocol.api.messages import request_class, response_class
from protocol.api.table import API_BY_KEY
from protocol.headers import parse_request_header
from protocol.reader import entity_reader
from protocol.schema import default_entity
from protocol.writer import frame_writer
from tests.doubles.clock import ManualClock
from tests.doubles.network import VirtualNetwork
from tests.unit.broker.membership.test_fetched_log import batch

PORT = 9093
ELECTION_MS = 3_000
"""After this the others have noticed that the leader is lost, and one of them leads."""
ANSWER_MS = 1
BROKER_EPOCH = 1
"""The offset of the registration's record."""


class Lost(Enum):
    """How the active controller is lost."""

    KILLED = "its connections end, and it accepts none"
    FROZEN = "it accepts connections, and answers nothing"
    CUT_OFF = "nothing comes through any more, and nobody says so"
    DEPOSED = "another one leads; it answers, and says so"


class Controller:
    """One of the three; `asked` has the names of the requests that it was sent."""

    def __init__(self, quorum: ThreeControllers, number: int) -> None:
        self.quorum = quorum
        self.node_id = 3000 + number
        self.host = f"c{number}.example"
        self.lost: Lost | None = None
        self.asked: list[str] = []
        quorum.network.listen(self.host, PORT, partial(_Session, self))

    @property
    def is_silent(self) -> bool:
        return self.lost in (Lost.FROZEN, Lost.CUT_OFF)

    @property
    def is_active(self) -> bool:
        return self.quorum.active is self and self.lost is None

    def answer(self, request: Any, cls: Any) -> Any:
        name = request.__class__.__name__.removesuffix("Request")
        self.asked.append(name)
        if name == "ApiVersions":
            keys = tuple(ApiVersion(api_key=key, min_version=0, max_version=99) for key in API_BY_KEY)
            return default_entity(cls, api_keys=keys)
        if name == "Fetch":
            return self._fetched(request)
        if not self.is_active:
            return default_entity(cls, error_code=ErrorCode.not_controller)
        if name == "BrokerRegistration":
            self.quorum.log[1:] = [batch(BROKER_EPOCH, 1, "registered")]
            return default_entity(cls, error_code=ErrorCode.none, broker_epoch=BROKER_EPOCH)
        if name == "BrokerHeartbeat":
            is_ahead = request.current_metadata_offset >= BROKER_EPOCH
            serves = is_ahead and self.quorum.unfences and not request.want_fence
            return default_entity(
                cls, error_code=ErrorCode.none, is_fenced=not serves, should_shut_down=request.want_shut_down
            )
        return default_entity(cls, error_code=ErrorCode.none)

    def _fetched(self, request: Any) -> Any:
        (asked,) = request.topics[0].partitions
        leader, log = self.quorum.active, self.quorum.log
        partition = default_entity(
            PartitionData,
            partition_index=0,
            error_code=ErrorCode.none if self.is_active else ErrorCode.not_leader_or_follower,
            high_watermark=len(log),
            current_leader=LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=self.quorum.epoch),
            records=log[asked.fetch_offset] if self.is_active and asked.fetch_offset < len(log) else b"",
        )
        topic = default_entity(FetchableTopicResponse, topic_id=uuid.UUID(int=1), partitions=(partition,))
        endpoint = default_entity(NodeEndpoint, node_id=leader.node_id, host=leader.host, port=PORT)
        return default_entity(
            FetchResponse,
            error_code=self.quorum.answers_fetch_with,
            responses=(topic,),
            node_endpoints=(endpoint,),
        )


class _Session(asyncio.Protocol):
    """A connection to a controller, which answers what comes in order."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._transport: Any

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._controller.is_silent:
            return
        header = parse_request_header(data[4:])
        key, version = header.api_key, header.api_version
        requested, answered = request_class(key, version), response_class(key, version)
        request, _ = entity_reader(requested, requested)(data, 4 + header.body)
        response: Any = self._controller.answer(request, answered)
        frame = bytes(
            frame_writer(answered, answered, API_BY_KEY[key].response_header_version(version))(
                response, header.correlation_id
            )
        )
        is_held = isinstance(response, FetchResponse) and not any(
            part.records or part.error_code for topic in response.responses for part in topic.partitions
        )
        pause_ms = request.max_wait.total_seconds() * 1000 if is_held else 0
        self._controller.quorum.clock.call_later(pause_ms + ANSWER_MS, partial(self._send, frame))

    def _send(self, frame: bytes) -> None:
        if not self._controller.is_silent:
            self._transport.write(frame)


class ThreeControllers:
    """The first one is active until `lose`; the second one is `ELECTION_MS` later."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.network = VirtualNetwork(clock)
        self.log = [batch(0, 1, "begin")]
        self.epoch = 1
        self.controllers = [Controller(self, number) for number in range(3)]
        self.active = self.controllers[0]
        self.unfences = True
        self.answers_fetch_with = ErrorCode.none

    def lose(self, how: Lost) -> None:
        """Lose the active one."""
        former = self.active
        former.lost = how
        match how:
            case Lost.KILLED:
                self.network.kill(former.host)
            case Lost.CUT_OFF:
                self.network.hangs.add((former.host, PORT))
            case Lost.FROZEN | Lost.DEPOSED:
                pass
        self.clock.call_later(0 if how is Lost.DEPOSED else ELECTION_MS, partial(self._elect, self.controllers[1]))

    def lose_all(self) -> None:
        for controller in self.controllers:
            self.network.kill(controller.host)

    def _elect(self, controller: Controller) -> None:
        self.active = controller
        self.epoch += 1
