"""Which controller is the active one, and requests to it through failovers, in virtual time."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any

import pytest
from kio.schema.allocate_producer_ids.v0 import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kio.schema.errors import ErrorCode

from broker.config.controllers import ControllerAddress
from broker.membership.controller_channel import ControllerChannel, ControllerQuorum, NoControllerError
from broker.peers.call import entity_call
from broker.peers.client import PeerClients, PeerNetwork, PeerSettings
from protocol.schema import default_entity
from protocol.writer import frame_writer
from tests.doubles.clock import ManualClock, settle
from tests.doubles.network import VirtualNetwork


def _itself(controller: Controller) -> Controller:
    return controller


CONFIGURED = [ControllerAddress(f"c{number}.example", 9093, 3000 + number) for number in range(3)]
ASK = AllocateProducerIdsRequest(broker_id=1, broker_epoch=2)


class Controller(asyncio.Protocol):
    """Answers AllocateProducerIds with its number, or what else it is told; None is no answer."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.answers: ErrorCode | None = ErrorCode.none
        self.asked = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.asked += 1
        if self.answers is not None:
            cls = AllocateProducerIdsResponse
            response = default_entity(cls, error_code=self.answers, producer_id_start=self.number)
            self.transport.write(frame_writer(cls, cls, 1)(response, int.from_bytes(data[8:12], "big")))


class Rig:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = VirtualNetwork(self.clock)
        self.controllers = [Controller(number) for number in range(3)]
        for address, controller in zip(CONFIGURED, self.controllers, strict=True):
            self.network.listen(address.host, address.port, partial(_itself, controller))
        self.quorum = ControllerQuorum(CONFIGURED)
        around = PeerNetwork(self.clock, random.Random(1), self.network.connect)
        clients = PeerClients(PeerSettings("broker-1", 30_000), around)
        self.channel = ControllerChannel(self.quorum, clients, self.clock, 30_000)

    def ask(self, timeout_ms: float = 60_000) -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.channel.send(entity_call(ASK), timeout_ms))


def test_the_newest_epoch_says_who_leads() -> None:
    quorum = ControllerQuorum(CONFIGURED)
    quorum.elected(3001, 5, None)
    assert quorum.active is not None
    assert (quorum.active.node_id, quorum.active.host, quorum.epoch) == (3001, "c1.example", 5)
    quorum.elected(3002, 4, None)
    assert quorum.active.node_id == 3001, "that was earlier"
    quorum.elected(3002, 6, ("elsewhere.example", 1))
    assert (quorum.active.node_id, quorum.active.host) == (3002, "elsewhere.example")
    quorum.elected(-1, 7, None)
    assert (quorum.active, quorum.epoch) == (None, 7)


def test_a_leader_whose_address_nobody_tells_is_not_known() -> None:
    quorum = ControllerQuorum([ControllerAddress("bootstrap.example", 9093)])
    quorum.elected(3001, 5, None)
    assert (quorum.active, quorum.epoch) == (None, 5)
    quorum.elected(3001, 5, ("c1.example", 9093))
    assert quorum.active is not None


def test_the_configured_controllers_are_asked_in_turn() -> None:
    quorum = ControllerQuorum(CONFIGURED)
    assert [quorum.next_to_ask() for _ in range(4)] == [*CONFIGURED, CONFIGURED[0]]


async def test_a_request_waits_until_the_active_controller_is_known() -> None:
    rig = Rig()
    asked = rig.ask()
    await rig.clock.run(5_000)
    assert not asked.done()
    rig.quorum.elected(3001, 1, None)
    assert (await asked).producer_id_start == 1


async def test_a_request_goes_to_the_next_active_controller_after_a_failover() -> None:
    rig = Rig()
    rig.quorum.elected(3000, 1, None)
    rig.controllers[0].answers = ErrorCode.not_controller
    asked = rig.ask()
    await rig.clock.run(1_000)
    assert rig.controllers[0].asked > 2, "it is asked again: it may have been elected meanwhile"
    rig.quorum.elected(3002, 2, None)
    await rig.clock.run(100)
    assert (await asked).producer_id_start == 2


async def test_a_controller_that_hangs_is_left_once_another_is_elected() -> None:
    rig = Rig()
    rig.quorum.elected(3000, 1, None)
    rig.controllers[0].answers = None
    asked = rig.ask()
    await rig.clock.run(2_000)
    rig.quorum.elected(3001, 2, None)
    await rig.clock.run(100)
    assert (await asked).producer_id_start == 1


async def test_a_lost_connection_is_opened_again() -> None:
    rig = Rig()
    rig.quorum.elected(3000, 1, None)
    rig.controllers[0].answers = None
    asked = rig.ask()
    await settle()
    rig.network.cut()
    rig.controllers[0].answers = ErrorCode.none
    await rig.clock.run(200)
    assert (await asked).producer_id_start == 0
    assert rig.controllers[0].asked == 2


@pytest.mark.parametrize("known", [False, True])
async def test_a_request_is_given_up_in_time(known: bool) -> None:
    rig = Rig()
    if known:
        rig.quorum.elected(3000, 1, None)
        rig.network.stop_listening("c0.example", 9093)
    asked = rig.ask(3_000)
    await rig.clock.run(2_999)
    assert not asked.done()
    await rig.clock.run(100)
    why = "Connection refused" if known else "the active controller is not known"
    with pytest.raises(NoControllerError, match=f"within 3000 ms: .*{why}"):
        await asked


async def test_an_error_of_the_request_itself_is_an_answer() -> None:
    rig = Rig()
    rig.quorum.elected(3000, 1, None)
    rig.controllers[0].answers = ErrorCode.stale_broker_epoch
    assert (await rig.ask()).error_code is ErrorCode.stale_broker_epoch
    assert rig.controllers[0].asked == 1
