"""Producers, zombies, delayed writes, crashes, partitions out of reach, against what a transaction promises.

A transaction is wholly visible or wholly not, and ends with no other's records; what was told to be committed is, what
was decided for good ends so, and in the end nothing is left open.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, rule

from coordinator.runtime.outcome import ProducerEpoch
from coordinator.transaction.transaction_metadata import TV_0, TV_2
from protocol.errors import ConcurrentTransactions, InvalidPidMapping, InvalidTxnState, KafkaError, ProducerFenced
from tests.unit.coordinator.transaction.rig import MINUTE_MS, Rig

NAMES = ("one", "two")
SHARES = st.floats(0, 1, exclude_max=True)
LAST = 0.999999
PARTITIONS = (("topic", 0), ("topic", 1), ("other", 0))


@dataclass(eq=False)
class Transaction:
    """What a client wrote, and how it may end: both ways until it is known."""

    values: list[int] = field(default_factory=list)
    outcomes: set[bool] = field(default_factory=lambda: {True, False})


@dataclass(eq=False)
class Client:
    """One producer; `ending` is the outcome it asks for until it is answered."""

    name: str
    version: int
    producer: ProducerEpoch
    transaction: Transaction = field(default_factory=Transaction)
    ending: bool | None = None
    fenced: bool = False
    lost_a_write: bool = False


@dataclass(eq=False)
class Write:
    """A record on its way to a partition."""

    client: Client
    producer: ProducerEpoch
    transaction: Transaction
    partition: tuple[str, int]
    value: int


class Coordinator(RuleBasedStateMachine):
    """`under_way` are EndTxn requests without an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.rig = Rig()
        self.run(self.rig.started())
        self.clients: list[Client] = []
        self.writes: list[Write] = []
        self.transactions: list[Transaction] = []
        self.under_way: list[tuple[Client, Future[ProducerEpoch]]] = []
        self.sent = 0

    def run(self, what: Coroutine[Any, Any, Any]) -> None:
        self.runner.run(what)

    def teardown(self) -> None:
        self.settle()
        self.runner.close()

    # -- clients

    @rule(name=st.sampled_from(NAMES), version=st.sampled_from((TV_0, TV_2)))
    def a_producer_starts(self, name: str, version: int) -> None:
        async def start() -> None:
            answer = self.rig.init(name)
            if answer.done() and answer.exception() is None and isinstance(begun := answer.result(), ProducerEpoch):
                self.clients.append(Client(name, version, begun))

        self.run(start())

    def some(self, share: float) -> Client | None:
        able = [client for client in self.clients if not client.fenced and client.ending is None]
        return able[int(share * len(able))] if able else None

    @rule(
        share=SHARES,
        partitions=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3),
        arriving=st.integers(0, 3),
        end=st.sampled_from((None, None, True, False)),
    )
    def records_are_sent(
        self, share: float, partitions: list[tuple[str, int]], arriving: int, end: bool | None
    ) -> None:
        """The first `arriving` of them arrive at once."""
        client = self.some(share)
        if client is None:
            return
        for number, partition in enumerate(partitions):
            if client.lost_a_write or client.fenced or (client.version == TV_0 and not self.asked(client, partition)):
                break
            self.sent += 1
            self.writes.append(Write(client, client.producer, client.transaction, partition, self.sent))
            if number < arriving:
                self.a_record_arrives(LAST)
        if end is not None and not client.fenced:
            self.end(client, end)

    def asked(self, client: Client, partition: tuple[str, int]) -> bool:
        """Send an old client's AddPartitionsToTxn; True if it was answered without an error."""

        async def ask() -> bool:
            answer = self.rig.add(client.producer, partition, name=client.name, version=TV_0)
            return self.well(client, answer)

        return self.runner.run(ask())

    def well(self, client: Client, answer: Future[Any]) -> bool:
        if not answer.done():
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
            return False
        error = answer.exception()
        if error is not None and not isinstance(error, ConcurrentTransactions):
            client.fenced = True
        return error is None

    @rule(share=SHARES)
    def a_record_arrives(self, share: float) -> None:
        """As the partition's leader does it: nothing unless the transaction is open, looked at in one go."""
        if not self.writes:
            return
        write = self.writes.pop(int(share * len(self.writes)))

        async def append() -> None:
            try:
                if write.client.version == TV_2:
                    added = self.rig.add(write.producer, write.partition, name=write.client.name)
                    if not self.well(write.client, added):
                        write.client.lost_a_write = True
                        return
                if not self.rig.verified(write.producer, {write.partition}, write.client.name):
                    write.client.lost_a_write = True
                    return
                self.rig.partitions.log(write.partition).append(write.producer, write.value)
            except (KafkaError, asyncio.InvalidStateError):
                write.client.lost_a_write = True
                return
            write.transaction.values.append(write.value)
            if write.transaction not in self.transactions:
                self.transactions.append(write.transaction)

        self.run(append())

    @rule(share=SHARES, commit=st.booleans())
    def a_transaction_ends(self, share: float, commit: bool) -> None:
        """A commit once every record has arrived. An old client waits for them before it aborts, too."""
        client = self.some(share)
        if client is not None:
            self.end(client, commit)

    def end(self, client: Client, commit: bool) -> None:
        on_their_way = any(write.client is client and write.transaction is client.transaction for write in self.writes)
        if on_their_way and (commit or client.version == TV_0):
            return
        if client.lost_a_write:
            commit = False
        client.ending = commit
        self.ask_end(client)

    @rule()
    def ends_are_asked_again(self) -> None:
        for client in self.clients:
            if client.ending is not None and all(one is not client for one, _ in self.under_way):
                self.ask_end(client)

    def ask_end(self, client: Client) -> None:
        assert client.ending is not None
        client.transaction.outcomes &= {client.ending, False}

        async def ask() -> None:
            answer = self.rig.end(client.producer, client.ending is True, client.name, client.version)
            self.under_way.append((client, answer))

        self.run(ask())
        self.hear()

    def hear(self) -> None:
        """What clients make of their answers; a request without one is asked again."""
        waiting = []
        for client, answer in self.under_way:
            if not answer.done():
                waiting.append((client, answer))
                continue
            error = answer.exception()
            if error is None:
                assert client.ending is not None
                client.transaction.outcomes &= {client.ending}
                client.transaction, client.ending, client.lost_a_write = Transaction(), None, False
                client.producer = answer.result() if client.version == TV_2 else client.producer
            elif isinstance(error, InvalidTxnState | ProducerFenced | InvalidPidMapping):
                client.fenced, client.ending = True, None
        self.under_way = waiting

    # -- the world

    @rule(hold=st.booleans())
    def the_log_is_slow(self, hold: bool) -> None:
        async def act() -> None:
            self.rig.log.hold = hold
            if not hold:
                self.rig.log.commit()

        self.run(act())
        self.run(asyncio.sleep(0))
        self.hear()

    @rule(lost=st.floats(0, 1))
    def the_coordinator_crashes(self, lost: float) -> None:
        """What is committed stays, of the rest any beginning."""
        log, safe = self.rig.log, self.rig.committed_batches
        kept = len(log.written) - int(lost * (len(log.written) - safe))
        self.run(self.rig.crashed(kept))
        self.hear()

    @rule(partition=st.sampled_from(PARTITIONS), how=st.sampled_from(("refuse", "hold")))
    def a_partition_cannot_be_reached(self, partition: tuple[str, int], how: str) -> None:
        getattr(self.rig.partitions, how).add(partition)

    @rule()
    def partitions_are_reached(self) -> None:
        async def act() -> None:
            self.rig.partitions.release()
            await asyncio.sleep(0)

        self.run(act())

    @rule(ms=st.sampled_from((150, 1_000, 40_000, 80_000)))
    def time_passes(self, ms: int) -> None:
        async def act() -> None:
            self.rig.clock.advance(ms)
            await asyncio.sleep(0)

        self.run(act())
        self.hear()

    # -- what must hold

    def settle(self) -> None:
        """Make every partition reachable again, and let open transactions time out."""
        self.the_log_is_slow(hold=False)
        for _ in range(3):
            self.partitions_are_reached()
            self.time_passes(MINUTE_MS + 20_000)
            self.ends_are_asked_again()
        found: dict[int, bool | None] = {}
        for log in self.rig.partitions.logs.values():
            found |= log.outcomes()
        for transaction in self.transactions:
            ended = {found[value] for value in transaction.values}
            assert len(ended) == 1, f"{transaction} ended as {ended}"
            assert ended <= transaction.outcomes, f"{transaction} ended as {ended}"
        self.none_joined_another()
        for name in NAMES:
            assert self.rig.state(name) in ("none", "Empty", "CompleteCommit", "CompleteAbort")

    def none_joined_another(self) -> None:
        owners = {value: transaction for transaction in self.transactions for value in transaction.values}
        for log in self.rig.partitions.logs.values():
            open_ones: dict[int, Transaction] = {}
            for (producer_id, _), value in log.records:
                if isinstance(value, bool):
                    open_ones.pop(producer_id, None)
                else:
                    assert open_ones.setdefault(producer_id, owners[value]) is owners[value]


TestCoordinator = pytest.mark.long(Coordinator.TestCase)
TestCoordinator.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
