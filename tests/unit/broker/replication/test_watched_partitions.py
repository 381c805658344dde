"""A fetch session that looks only at the partitions that have changed answers as one that looks at all of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.fetch.v12.request import FetchPartition, FetchTopic, ForgottenTopic

from broker.api import fetch as fetching
from broker.replication.fetch_session import Target
from protocol.durations import MILLISECOND
from tests.doubles.clock import settle
from tests.unit.broker import transactions
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch, fetch, produce

VERSION = 12
ALL = "looks at all"
"""The client id of a consumer for which the short way is closed."""

Place = tuple[str, int]


class Consumer:
    """A consumer with a session; it asks on from what it got. `reads` is what each answer told, in order."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.session, self.epoch = 0, 0
        self.offsets: dict[Place, int] = {}
        self.named: dict[Place, int] = {}

    def want(self, place: Place, offset: int = 0) -> None:
        self.offsets[place] = self.named[place] = offset

    def send(
        self, *, max_wait_ms: int = 0, isolation: int = 0, forget: Sequence[Place] = (), max_bytes: int = 1 << 20
    ) -> None:
        topics = tuple(
            FetchTopic(
                topic=topic,
                partitions=(FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=150),),
            )
            for (topic, index), offset in self.named.items()
        )
        for place in forget:
            self.offsets.pop(place, None)
        self.named = {}
        fields: dict[str, Any] = fetch([], max_wait_ms=max_wait_ms, max_bytes=max_bytes, isolation_level=isolation)
        fields |= {"session_id": self.session, "session_epoch": self.epoch, "topics": topics}
        fields["forgotten_topics_data"] = tuple(
            ForgottenTopic(topic=topic, partitions=(index,)) for topic, index in forget
        )
        self.client.send("fetch", VERSION, client_id=self.name, **fields)

    def hear(self) -> list[tuple[Place, Mapping[str, Any]]]:
        """What the answer tells, which must have come."""
        (reply,) = self.client.replies()
        told = answer(reply, "fetch", VERSION)
        assert told.error_code.name == "none"
        self.session, self.epoch = told.session_id, self.epoch + 1
        found = []
        for topic in told.responses:
            for one in topic.partitions:
                place = topic.topic, one.partition_index
                found.append((place, vars_of(one)))
                if one.records and place in self.offsets:
                    self.want(place, self.offsets[place] + 1)
                elif one.error_code.name == "offset_out_of_range":
                    self.want(place, max(one.log_start_offset, 0))
        return found


def vars_of(one: Any) -> Mapping[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


@pytest.fixture
def looks_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = fetching._read_as
    monkeypatch.setattr(fetching, "_read_as", lambda ctx, *rest: None if ctx.client_id == ALL else plain(ctx, *rest))


async def both(consumers: Sequence[Consumer], **how: Any) -> None:
    heard = []
    for consumer in consumers:
        consumer.send(**how)
        await settle()
        heard.append(consumer.hear())
    assert heard[0] == heard[1]


async def deleted(rig: Rig, place: Place, offset: int) -> None:
    asked = DeleteRecordsTopic(
        name=place[0], partitions=(DeleteRecordsPartition(partition_index=place[1], offset=offset),)
    )
    await rig.connect().ask("delete_records", 2, topics=(asked,), timeout=1000 * MILLISECOND)


@pytest.mark.usefixtures("looks_at_all")
@pytest.mark.parametrize("seed", range(12))
async def test_sessions_answer_alike_whatever_happens_to_their_partitions(seed: int) -> None:  # noqa: PLR0912
    chance = random.Random(seed)
    places = [(topic, index) for topic in ("a", "b", "t") for index in range(3)]
    async with Rig(config=transactions.CONFIG, seed=seed) as rig:
        for topic in ("a", "b", "t"):
            await rig.create(topic, 3)
        producer = await transactions.begun(rig)
        is_open = False
        consumers = [Consumer(rig.connect(), name) for name in ("watches", ALL)]
        for place in places:
            for consumer in consumers:
                consumer.want(place)
        client = rig.connect()
        exists = {"a", "b", "t"}
        for _ in range(120):
            place = chance.choice(places)
            match chance.randrange(12):
                case 0 | 1 | 2 | 3:
                    await client.ask("produce", 9, **produce(place[0], {place[1]: batch(b"v")}))
                case 4:
                    await deleted(rig, place, -1)
                case 5 if not is_open:
                    is_open = await producer.produce(b"t", 0) == ["none"]
                case 6 if is_open:
                    assert await producer.end(commit=chance.random() < 0.5) == "none"
                    is_open = False
                case 7 if place[0] != "t":
                    if place[0] in exists:
                        await rig.delete(place[0])
                        exists.discard(place[0])
                    else:
                        await rig.create(place[0], 3)
                        exists.add(place[0])
                case 8:
                    offset = chance.randrange(4)
                    for consumer in consumers:
                        consumer.want(place, offset)
                case 9 if place in consumers[0].offsets and len(consumers[0].offsets) > 2:
                    await both(consumers, forget=[place])
                    continue
                case _:
                    pass
            await both(consumers, isolation=int(chance.random() < 0.3), max_bytes=chance.choice([150, 1 << 20]))


@pytest.mark.usefixtures("looks_at_all")
@pytest.mark.parametrize("name", ["watches", ALL])
async def test_a_wait_ends_when_a_partition_that_was_idle_has_something_to_read(name: str) -> None:
    async with Rig(config=transactions.CONFIG) as rig:
        await rig.create("a", 3)
        await rig.create("t", 1)
        producer = await transactions.begun(rig)
        consumer, client = Consumer(rig.connect(), name), rig.connect()
        for place in [("a", 0), ("a", 1), ("a", 2), ("t", 0)]:
            consumer.want(place)
        for _ in range(2):
            consumer.send(isolation=1)
            await settle()
            consumer.hear()
        consumer.send(isolation=1, max_wait_ms=500)
        await settle()
        assert await producer.produce(b"open", 0) == ["none"]
        await rig.clock.run(100)
        assert consumer.client.replies() == []  # an open transaction is nothing to read
        await client.ask("produce", 9, **produce("a", {1: batch(b"v")}))
        told = dict(consumer.hear())
        assert sorted(told) == [("a", 1), ("t", 0)]
        assert told["a", 1]["records"]
        assert (told["t", 0]["high_watermark"], told["t", 0]["last_stable_offset"]) == (1, 0)
        consumer.send(isolation=1, max_wait_ms=500)
        await settle()
        assert await producer.end(commit=True) == "none"
        assert [place for place, _ in consumer.hear()] == [("t", 0)]


@pytest.mark.long
async def test_idle_partitions_are_not_looked_at_and_are_forgotten_with_their_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[int] = []
    plain = fetching.Fetch._find_partitions

    def find(self: fetching.Fetch, targets: Sequence[Target]) -> None:
        looked_at.append(len(targets))
        plain(self, targets)

    monkeypatch.setattr(fetching.Fetch, "_find_partitions", find)
    async with Rig() as rig:
        await rig.create("wide", 200)
        consumer = Consumer(rig.connect(), "watches")
        for index in range(200):
            consumer.want(("wide", index))
        for _ in range(4):
            consumer.send()
            await settle()
            consumer.hear()
        assert looked_at == [200, 200, 0, 0]
        sessions = rig.node.local.fetch_sessions
        assert len(sessions.watchers) == 200
        consumer.send(forget=[("wide", 0)])
        await settle()
        consumer.hear()
        assert len(sessions.watchers) == 199
        consumer.epoch = -1
        consumer.send()
        await settle()
        assert (len(sessions), sessions.watchers) == (0, {})
