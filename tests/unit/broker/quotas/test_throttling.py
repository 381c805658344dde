"""Clients held to their quotas: through the whole node, in virtual time."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.create_partitions.v3.request import CreatePartitionsAssignment, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.delete_topics.v6.request import DeleteTopicState

from tests.doubles.clock import settle
from tests.unit.broker.quotas.limits import METADATA, answered, set_quota
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch, fetch, frame, produce

SOON = timedelta(seconds=30)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as one:
        await one.create("t")
        yield one


async def asked_in_vain(client: Client, rig: Rig, after_ms: int) -> None:
    """A request is answered `after_ms` from now and no earlier, and it is not read before."""
    client.send("metadata", 12, **METADATA)
    client.send("metadata", 12, **METADATA)
    assert not client.transport.reading
    await rig.clock.run(after_ms - 1)
    assert await answered(client) == 0
    await rig.clock.run(1)
    assert await answered(client) == 2
    assert client.transport.reading


def milliseconds(response: Any) -> int:
    return int(response.throttle_time / timedelta(milliseconds=1))


# -- produce


async def test_producer_byte_rate_who_produces_too_much_is_told_and_not_read_from(rig: Rig) -> None:
    await set_quota(rig, "producer_byte_rate", 1000.0, client_id="test")
    client = rig.connect()
    size = len(frame("produce", 9, 1, **produce("t", {0: batch(b"x" * 20_000)}))) - 4
    told = await client.ask("produce", 9, **produce("t", {0: batch(b"x" * 20_000)}))
    expected_ms = over(size, 1000, 10_000)
    assert milliseconds(told) == expected_ms
    assert told.responses[0].partition_responses[0].base_offset == 0
    await asked_in_vain(client, rig, expected_ms)


async def test_others_are_not_held_back_and_the_client_is_on_every_connection(rig: Rig) -> None:
    await set_quota(rig, "producer_byte_rate", 1000.0, client_id="test")
    much = produce("t", {0: batch(b"x" * 20_000)})
    assert milliseconds(await rig.connect().ask("produce", 9, **much, client_id="other")) == 0
    first = milliseconds(await rig.connect().ask("produce", 9, **much))
    second = milliseconds(await rig.connect("10.0.0.8").ask("produce", 9, **much))
    assert 0 < first < second


async def test_a_producer_that_waits_for_no_answer_is_held_back_as_well(rig: Rig) -> None:
    await set_quota(rig, "producer_byte_rate", 1000.0, user="ANONYMOUS")
    client = rig.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"x" * 12_000)}, acks=0))
    client.send("metadata", 12, **METADATA)
    client.send("metadata", 12, **METADATA)
    assert await answered(client) == 0
    await rig.clock.run(10_000)
    assert await answered(client) == 2


async def test_overlapping_requests_are_all_answered_and_the_longest_wait_counts(rig: Rig) -> None:
    await rig.create("gated", flush_messages="1")
    await set_quota(rig, "producer_byte_rate", 1000.0, client_id="test")
    client = rig.connect()
    for _ in range(3):
        client.send("produce", 9, **produce("gated", {0: batch(b"x" * 9_000)}))
    await settle()
    told = [milliseconds(answer(reply, "produce", 9)) for reply in client.replies()]
    assert told == sorted(told) and len(told) == 3
    await asked_in_vain(client, rig, told[-1])


async def test_a_quota_that_is_gone_holds_nobody_back(rig: Rig) -> None:
    await set_quota(rig, "producer_byte_rate", 1.0, client_id=None)
    assert rig.node.local.throttling.enabled
    await set_quota(rig, "producer_byte_rate", None, client_id=None)
    assert not rig.node.local.throttling.enabled
    assert milliseconds(await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"x" * 20_000)}))) == 0


async def test_quotas_hold_after_a_restart(rig: Rig) -> None:
    await set_quota(rig, "producer_byte_rate", 1000.0, client_id="test", user=None)
    again = await rig.crash()
    assert milliseconds(await again.connect().ask("produce", 9, **produce("t", {0: batch(b"x" * 20_000)}))) > 0
    await again.stop()


async def test_a_client_that_is_held_back_may_leave_and_the_node_stop(rig: Rig) -> None:
    await set_quota(rig, "producer_byte_rate", 1.0, client_id="test")
    leaver, waiter = rig.connect(), rig.connect()
    for client in (leaver, waiter):
        await client.ask("produce", 9, **produce("t", {0: batch(b"x" * 20_000)}))
    timers = len(rig.node.wheel)
    leaver.transport.half_close()
    assert await leaver.closed()
    assert len(rig.node.wheel) == timers - 2  # its throttling and its idle time
    await rig.stop()
    assert await waiter.closed()
    await rig.start()


# -- fetch


async def fill(rig: Rig, batches: int) -> None:
    for _ in range(batches):
        await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"x" * 1000)}), client_id="filler")


async def test_consumer_byte_rate_who_fetches_too_much_gets_no_records_until_later(rig: Rig) -> None:
    await fill(rig, 8)
    await set_quota(rig, "consumer_byte_rate", 500.0, client_id="test")
    client = rig.connect()
    everything = fetch([("t", 0, 0)], max_bytes=10**6)
    size = answer_size(5000)  # more records are not even tried: 500 bytes a second are 5000 in ten windows
    first = await client.ask("fetch", 12, **everything)
    assert (milliseconds(first), first.responses, first.session_id) == (over(size, 500, 10_000), (), 0)
    await rig.clock.run(milliseconds(first))
    second = await client.ask("fetch", 12, **everything)
    assert (milliseconds(second), len(second.responses[0].partitions[0].records)) == (0, 5000)
    third = await client.ask("fetch", 12, **everything)
    expected_ms = over(2 * size, 500, 10_000 + milliseconds(first))
    assert (milliseconds(third), third.responses) == (expected_ms, ())
    await asked_in_vain(client, rig, expected_ms)


def over(used: int, quota: int, window_ms: int) -> int:
    return round((used / (window_ms / 1000) - quota) / quota * window_ms)


def answer_size(records: int) -> int:
    """Kafka's count of a Fetch 12 answer with so many bytes of records: its size prefix and body."""
    partition = 4 + 2 + 8 + 8 + 8 + 1 + 4 + 2 + records + 1
    return 4 + (4 + 2 + 4) + 1 + (1 + 1) + 1 + partition + 1 + 1


async def test_a_session_does_not_change_by_an_answer_without_records(rig: Rig) -> None:
    client = rig.connect()
    opened = await client.ask("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=0, session_epoch=0))
    assert opened.session_id
    await fill(rig, 3)
    await set_quota(rig, "consumer_byte_rate", 400.0, user="ANONYMOUS")
    again = fetch([], max_wait_ms=0, session_id=opened.session_id)
    told = await client.ask("fetch", 12, **again, session_epoch=1)
    assert (milliseconds(told), len(told.responses)) == (0, 1)
    throttled = await client.ask("fetch", 12, **again, session_epoch=2)
    assert throttled.session_id == opened.session_id
    assert throttled.responses == () and milliseconds(throttled) > 0
    await rig.clock.run(60_000)
    told = await client.ask("fetch", 12, **again, session_epoch=3)
    assert (milliseconds(told), len(told.responses)) == (0, 1)


async def test_a_full_fetch_that_is_held_back_opens_no_session(rig: Rig) -> None:
    await fill(rig, 3)
    await set_quota(rig, "consumer_byte_rate", 400.0, client_id="test")
    assert (await rig.connect().ask("fetch", 12, **fetch([("t", 0, 0)]))).responses
    held = await rig.connect().ask("fetch", 12, **fetch([("t", 0, 0)], session_epoch=0))
    assert (held.session_id, len(rig.node.local.fetch_sessions)) == (0, 0)


async def test_quotas_of_clients_do_not_hold_for_replicas(rig: Rig) -> None:
    await fill(rig, 1)
    await set_quota(rig, "consumer_byte_rate", 1.0, client_id="test")
    as_replica = fetch([("t", 0, 0)]) | {"replica_id": 1}
    told = await rig.connect().ask("fetch", 12, **as_replica)
    assert (milliseconds(told), len(told.responses)) == (0, 1)
    assert milliseconds(await rig.connect().ask("fetch", 12, **fetch([("t", 0, 0)]))) > 0


# -- requests


def slow(monkeypatch: pytest.MonkeyPatch, rig: Rig, api_key: int, ms: float) -> None:
    """Handling the API takes so long."""
    route = rig.route(api_key)
    handler = route.load()

    def handle(ctx: Any, request: Any) -> Any:
        rig.clock.advance(ms)
        return handler.handle(ctx, request)

    monkeypatch.setattr(route, "handle", handle)


async def test_request_percentage_who_takes_too_much_time_waits_but_a_window_at_most(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_quota(rig, "request_percentage", 1.0, client_id="test")
    slow(monkeypatch, rig, 3, 101)
    client = rig.connect()
    assert milliseconds(await client.ask("metadata", 12, **METADATA)) == 100  # 10.1 % over 10 s
    await rig.clock.run(100)
    slow(monkeypatch, rig, 3, 4000)
    assert milliseconds(await client.ask("metadata", 12, **METADATA)) == 1000
    assert milliseconds(await rig.connect().ask("metadata", 12, **METADATA, client_id="other")) == 0


async def test_time_is_counted_once_for_requests_that_came_together(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await set_quota(rig, "request_percentage", 2.9, client_id="test")
    slow(monkeypatch, rig, 3, 101)
    client = rig.connect()
    client.transport.feed(b"".join(frame("metadata", 12, n, **METADATA) for n in range(3)))
    await settle()
    told = [milliseconds(answer(reply, "metadata", 12)) for reply in client.replies()]
    assert told == [0, 0, 246]  # 303 ms are 2.9 % of 10.448 s, of which 10.202 are over


async def test_a_fetch_over_the_request_quota_gets_no_records(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(rig, 1)
    await set_quota(rig, "request_percentage", 1.0, client_id="test")
    slow(monkeypatch, rig, 1, 200)
    told = await rig.connect().ask("fetch", 12, **fetch([("t", 0, 0)]))
    assert (milliseconds(told), told.responses) == (1000, ())


async def test_waiting_is_not_using_the_broker(rig: Rig) -> None:
    await set_quota(rig, "request_percentage", 0.001, client_id="test")
    client = rig.connect()
    client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=500))
    await rig.clock.run(500)
    (reply,) = client.replies()
    assert milliseconds(answer(reply, "fetch", 12)) == 0


async def test_apis_without_a_place_for_the_time_hold_clients_back_all_the_same(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_quota(rig, "request_percentage", 1.0, client_id="test")
    slow(monkeypatch, rig, 17, 105)
    client = rig.connect()
    client.send("sasl_handshake", 1, mechanism="PLAIN")
    assert await answered(client) == 1
    await asked_in_vain(client, rig, 500)


# -- changes of topics


def creation(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=())


async def create(client: Client, version: int, *topics: CreatableTopic, validate_only: bool = False) -> Any:
    if version < 7:
        module = importlib.import_module(f"kio.schema.create_topics.v{version}.request")
        topics = tuple(
            module.CreatableTopic(
                name=one.name, num_partitions=one.num_partitions, replication_factor=1, assignments=(), configs=()
            )
            for one in topics
        )
    return await client.ask("create_topics", version, topics=topics, timeout=SOON, validate_only=validate_only)


def codes(results: Any) -> list[tuple[str, str]]:
    return [(one.name, one.error_code.name) for one in results]


@pytest.mark.long
async def test_controller_mutation_rate_refuses_partitions_while_some_are_owed(rig: Rig) -> None:
    await set_quota(rig, "controller_mutation_rate", 1.0, client_id="test")
    client = rig.connect()
    done = await create(client, 7, creation("a", 12), creation("b", 1))
    assert codes(done.topics) == [("a", "none"), ("b", "throttling_quota_exceeded")]  # 11 were saved up
    assert milliseconds(done) == 1000
    await asked_in_vain(client, rig, 1000)
    done = await create(client, 7, creation("b", 3))
    assert (codes(done.topics), milliseconds(done)) == ([("b", "none")], 0)


async def test_older_versions_are_only_told_to_wait(rig: Rig) -> None:
    await set_quota(rig, "controller_mutation_rate", 1.0, client_id="test")
    client = rig.connect()
    done = await create(client, 5, creation("a", 12), creation("b", 1))
    assert codes(done.topics) == [("a", "none"), ("b", "none")]
    assert milliseconds(done) == 2000


async def test_growing_and_deleting_topics_counts_partitions_too(rig: Rig) -> None:
    await set_quota(rig, "controller_mutation_rate", 0.5, client_id="test")
    client = rig.connect()
    grown = CreatePartitionsTopic(name="t", count=12, assignments=None)
    done = await client.ask("create_partitions", 3, topics=(grown,), timeout=SOON, validate_only=False)
    assert (codes(done.results), milliseconds(done)) == ([("t", "none")], 0)
    named = DeleteTopicState(name="t", topic_id=None)
    refused = await client.ask("delete_topics", 6, topics=(named,), timeout=SOON)
    assert codes(refused.responses) == [("t", "throttling_quota_exceeded")]
    assert milliseconds(refused) == 11_000
    await rig.clock.run(11_000)
    deleted = await client.ask("delete_topics", 6, topics=(named,), timeout=SOON)
    assert (codes(deleted.responses), milliseconds(deleted)) == ([("t", "none")], 0)


async def test_partitions_for_replicas_that_there_are_not_count_too(rig: Rig) -> None:
    await set_quota(rig, "controller_mutation_rate", 0.5, client_id="test")
    client = rig.connect()
    elsewhere = (CreatePartitionsAssignment(broker_ids=(7,)),) * 11
    for assignments, code in ((elsewhere, "invalid_replica_assignment"), (None, "throttling_quota_exceeded")):
        grown = CreatePartitionsTopic(name="t", count=12, assignments=assignments)
        done = await client.ask("create_partitions", 3, topics=(grown,), timeout=SOON, validate_only=False)
        assert codes(done.results) == [("t", code)]


async def test_a_topic_made_on_first_use_counts_for_who_asked(rig: Rig) -> None:
    await set_quota(rig, "controller_mutation_rate", 1.0, client_id="test")
    client = rig.connect()
    await create(client, 7, creation("a", 13))
    module = importlib.import_module("kio.schema.metadata.v12.request")
    wanted = METADATA | {
        "topics": (module.MetadataRequestTopic(topic_id=None, name="auto"),),
        "allow_auto_topic_creation": True,
    }
    await client.ask("metadata", 12, **wanted)
    assert rig.node.cluster.cache.topic("auto") is None
    await rig.clock.run(2000)
    await client.ask("metadata", 12, **wanted)
    assert rig.node.cluster.cache.topic("auto") is not None


async def test_the_average_of_the_times_is_told(rig: Rig) -> None:
    await set_quota(rig, "producer_byte_rate", 1000.0, client_id="test")
    read = rig.node.local.metrics.readings["kafka_server_produce_throttle_time"].read
    assert list(read()) == []  # type: ignore[arg-type]
    much = produce("t", {0: batch(b"x" * 20_000)})
    told = [milliseconds(await rig.connect().ask("produce", 9, **much)) for _ in range(2)]
    assert list(read()) == [(("", "test"), pytest.approx(sum(told) / 2))]  # type: ignore[arg-type]
    rig.clock.advance(60_000)
    assert list(read()) == [(("", "test"), 0)]  # type: ignore[arg-type]
