"""Queues to other brokers: one request at a time each, and what becomes of what cannot be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from broker.peers.call import PeerTimeoutError
from broker.peers.client import PeerClient
from broker.peers.queues import MOST_A_REQUEST, BrokerQueues, Sent
from protocol.errors import Network
from tests.doubles.clock import settle

CLIENT = cast(PeerClient, object())


class Brokers:
    """The other brokers: `requests` has what each was sent; `answer` lets it answer, or fail."""

    def __init__(self) -> None:
        self.alive = {2, 3}
        self.requests: list[list[str]] = []
        self._waiting: list[tuple[Sequence[Sent[str, str]], asyncio.Future[None]]] = []
        self.queues: BrokerQueues[str, str] = BrokerQueues(self._reach, self._exchange)

    def _reach(self, broker_id: int) -> PeerClient | None:
        return CLIENT if broker_id in self.alive else None

    async def _exchange(self, _client: PeerClient, sent: Sequence[Sent[str, str]]) -> None:
        self.requests.append([one.what for one in sent])
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((sent, answered))
        await answered
        for one in sent:
            if not one.what.startswith("forgotten"):
                one.answer.set_result(one.what.upper())

    def put(self, what: str, broker_id: int = 2, key: str | None = None, alike: str = "") -> asyncio.Future[str]:
        return self.queues.put(broker_id, what if key is None else key, alike, what)

    async def answer(self, error: Exception | None = None) -> None:
        """Let the oldest request be answered."""
        _, answered = self._waiting.pop(0)
        if error is None:
            answered.set_result(None)
        else:
            answered.set_exception(error)
        await settle()


async def test_what_comes_while_a_request_is_on_its_way_goes_together_in_the_next() -> None:
    brokers = Brokers()
    first = brokers.put("a")
    await settle()
    rest = [brokers.put("b"), brokers.put("c")]
    other = brokers.put("d", broker_id=3)
    await settle()
    assert brokers.requests == [["a"], ["d"]]
    assert len(brokers.queues) == 2
    await brokers.answer()
    assert len(brokers.queues) == 0
    assert first.result() == "A"
    assert brokers.requests == [["a"], ["d"], ["b", "c"]]
    await brokers.answer()
    await brokers.answer()
    assert [one.result() for one in (*rest, other)] == ["B", "C", "D"]


async def test_things_with_one_key_share_a_request_only_if_they_are_alike() -> None:
    brokers = Brokers()
    answers = [
        brokers.put("commit-0", key="7", alike="commit"),
        brokers.put("commit-1", key="7", alike="commit"),
        brokers.put("abort-0", key="7", alike="abort"),
        brokers.put("other", key="8", alike="abort"),
    ]
    await settle()
    assert brokers.requests == [["commit-0", "commit-1", "other"]]
    await brokers.answer()
    assert brokers.requests[1:] == [["abort-0"]]
    await brokers.answer()
    assert all(one.result() for one in answers)


async def test_a_request_has_so_much_and_no_more() -> None:
    brokers = Brokers()
    answers = [brokers.put(f"{number}") for number in range(MOST_A_REQUEST + 1)]
    await settle()
    await brokers.answer()
    await brokers.answer()
    assert [len(request) for request in brokers.requests] == [MOST_A_REQUEST, 1]
    assert answers[-1].result() == f"{MOST_A_REQUEST}"


@pytest.mark.parametrize("error", [PeerTimeoutError("late"), ZeroDivisionError()])
async def test_a_request_that_is_not_answered_fails_with_network_exception_and_the_next_is_sent(
    error: Exception,
) -> None:
    brokers = Brokers()
    failed = brokers.put("a")
    await settle()
    sent = brokers.put("b")
    await brokers.answer(error)
    assert isinstance(failed.exception(), Network)
    await brokers.answer()
    assert sent.result() == "B"


async def test_what_an_answer_leaves_out_fails() -> None:
    brokers = Brokers()
    known, forgotten = brokers.put("known"), brokers.put("forgotten")
    await settle()
    await brokers.answer()
    assert known.result() == "KNOWN"
    assert isinstance(forgotten.exception(), Network)


async def test_a_broker_that_is_gone_is_not_waited_for() -> None:
    brokers = Brokers()
    here, there = brokers.put("a"), brokers.put("b", broker_id=3)
    await settle()
    brokers.alive.discard(2)
    brokers.queues.brokers_changed()
    await settle()
    assert isinstance(here.exception(), Network)
    assert not there.done()
    later = brokers.put("c")
    await settle()
    assert isinstance(later.exception(), Network)
    assert brokers.requests == [["a"], ["b"]]


async def test_after_the_end_nothing_is_sent_and_all_that_waits_fails() -> None:
    brokers = Brokers()
    answers: list[asyncio.Future[Any]] = [brokers.put("a")]
    await settle()
    answers.append(brokers.put("b"))
    brokers.queues.close()
    answers.append(brokers.put("c"))
    await settle()
    assert [type(one.exception()) for one in answers] == [Network] * 3
    assert brokers.requests == [["a"]]


async def test_what_comes_in_the_moment_in_which_a_queue_is_empty_is_sent_too() -> None:
    async def exchange(_client: PeerClient, sent: Sequence[Sent[str, str]]) -> None:
        for one in sent:
            one.answer.set_result(one.what)

    queues: BrokerQueues[str, str] = BrokerQueues(lambda _: CLIENT, exchange)
    for ticks in range(12):
        first = queues.put(2, "a", "", "a")
        for _ in range(ticks):
            await asyncio.sleep(0)
        second = queues.put(2, "b", "", "b")
        await settle()
        assert (first.done(), second.done()) == (True, True), ticks
