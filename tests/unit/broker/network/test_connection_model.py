"""Whatever a connection has met (pauses, throttles, late answers, bytes in pieces), all is answered in order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.network.connection import MAX_OVERLAPPING, Connection
from broker.network.dispatch import Pending
from broker.network.frames import SCRATCH_BYTES
from broker.network.outbox import Outbox
from tests.doubles.clock import ManualClock, settle
from tests.unit.broker.rig import HIGH_WATER, FakeTransport
from timing.wheel import TimingWheel

PRODUCE, OTHER = 0, 3
AT_ONCE, LATER, NEVER = 0, 1, 2
"""How a request is answered; never is what acks=0 asks for."""

requests = st.tuples(
    st.sampled_from([PRODUCE, OTHER]),
    st.sampled_from([AT_ONCE, LATER, LATER, NEVER]),
    st.sampled_from([0, 10, SCRATCH_BYTES, 300_000]),
    st.sampled_from([4, 4, HIGH_WATER + 1]),
)
actions = st.one_of(
    st.tuples(st.just("send"), st.lists(requests, min_size=1, max_size=6)),
    st.tuples(st.just("send a part"), st.integers(1, 5_000)),
    st.tuples(st.just("answer"), st.integers(0, 20)),
    st.tuples(st.just("stall"), st.none()),
    st.tuples(st.just("take"), st.none()),
    st.tuples(st.just("throttle"), st.integers(1, 200)),
    st.tuples(st.just("pass"), st.integers(1, 300)),
    st.tuples(st.just("freeze"), st.integers(1_000, 200_000)),
)


class Model:
    """A connection, and a dispatcher that answers each request as its bytes say."""

    pipelined_keys = frozenset({PRODUCE})

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.server: Any = SimpleNamespace(
            clock=self.clock,
            throttle_wheel=TimingWheel(self.clock),
            outbox=Outbox(self.clock),
            max_request_bytes=1 << 20,
            size_buffers=lambda _: None,
            admit=lambda _: None,
            forget=lambda _: None,
        )
        dispatcher: Any = self
        self.connection = Connection(self.server, dispatcher, "PLAINTEXT")
        self.transport = FakeTransport(self.connection, "client")
        self.connection.connection_made(self.transport)
        self.sent = 0
        self.unsent = b""
        self.waiting: list[asyncio.Future[bytearray]] = []
        self.expected: list[bytes] = []
        self.handled = 0

    def dispatch(self, _connection: Any, frame: memoryview) -> Any:
        key, how, size = frame[1], frame[2], int.from_bytes(frame[3:7], "big")
        reply = bytearray(int.from_bytes(frame[7:11], "big").to_bytes(4, "big") + bytes(size - 4))
        self.handled += 1
        if how == NEVER:
            return None
        if how == AT_ONCE:
            return reply
        work: asyncio.Future[bytearray] = asyncio.get_running_loop().create_future()
        self.waiting.append(work)
        return Pending(work, lambda: reply, key != PRODUCE, only_reads=False)

    def request(self, key: int, how: int, size: int, reply_size: int) -> bytes:
        """The bytes of the next request: of `size`, and with what `dispatch` has to do."""
        number, self.sent = self.sent, self.sent + 1
        body = bytes([0, key, how]) + reply_size.to_bytes(4, "big") + number.to_bytes(4, "big") + bytes(size)
        if how != NEVER:
            self.expected.append(number.to_bytes(4, "big") + bytes(reply_size - 4))
        return len(body).to_bytes(4, "big") + body

    async def act(self, action: str, what: Any) -> None:
        match action:
            case "send":
                data = self.unsent + b"".join(self.request(*one) for one in what)
                self.unsent = b""
                self.transport.feed(data)
            case "send a part":
                data = self.unsent or self.request(PRODUCE, LATER, 4_000, 4)
                self.unsent = data[what:]
                self.transport.feed(data[:what])
            case "answer":
                if self.waiting:
                    self.waiting.pop(what % len(self.waiting)).set_result(bytearray())
            case "stall":
                self.transport.stalled = True
            case "take":
                self.transport.take()
            case "throttle":
                self.connection.throttle(what)
            case "pass":
                await self.clock.run(what)
            case "freeze":
                self.clock.stall(what)
        await settle()

    async def end(self) -> None:
        """Let everything go on, and every request be answered."""
        self.transport.feed(self.unsent)
        for _ in range(self.sent + 1):
            self.transport.take()
            await self.clock.run(1_000)
            while self.waiting:
                self.waiting.pop(0).set_result(bytearray())
            await settle()


@settings(max_examples=100, deadline=None)
@given(st.lists(actions, max_size=40))
def test_every_request_is_answered_in_order_and_reading_goes_on(script: list[tuple[str, Any]]) -> None:
    async def live() -> None:
        model = Model()
        for action, what in script:
            await model.act(action, what)
        await model.end()
        assert model.handled == model.sent
        assert bytes(model.transport.sent) == b"".join(model.expected)
        assert model.transport.reading
        assert model.connection.idle

    asyncio.run(live())


async def test_more_requests_than_may_overlap_are_answered_as_room_is_made() -> None:
    model = Model()
    await model.act("send", [(PRODUCE, LATER, 10, 4)] * (3 * MAX_OVERLAPPING))
    assert model.handled == MAX_OVERLAPPING
    await model.end()
    assert bytes(model.transport.sent) == b"".join(model.expected)
    assert model.transport.reading


async def test_work_that_is_given_up_ends_its_connection_since_its_client_would_wait_for_the_answer() -> None:
    model = Model()
    warned: list[str] = []
    model.server.lines = SimpleNamespace(warn=lambda event, *_, error: warned.append(error))
    await model.act("send", [(PRODUCE, LATER, 10, 4), (PRODUCE, LATER, 10, 4)])
    model.waiting[0].cancel()
    await settle()
    assert model.transport.lost
    assert warned == ["the work on a request was given up, and answers come in order"]
