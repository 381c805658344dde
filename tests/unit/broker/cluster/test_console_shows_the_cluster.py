"""The console of each broker shows the cluster: what others lead is read from them, as their clients read it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic

from broker.testkit.control import topic_reader
from protocol.errors import TopicAuthorization
from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin
from tests.unit.broker.cluster.three_brokers import ALL_PARTITIONS, MINUTE, TRANSACTION, Cluster, Producer
from tests.unit.broker.console.browsing import Browser, browsing

T = TypeVar("T")
FIRST_MS = 1_700_000_000_000
NODES = (1, 2, 3)


async def during(cluster: Cluster, work: Awaitable[T]) -> T:
    """The result of a request, which goes through real sockets; time goes on for the nodes meanwhile."""
    asked = asyncio.ensure_future(work)
    async with asyncio.timeout(120):
        while not asked.done():
            await cluster.clock.run(10)
            await asyncio.sleep(0)
    return await asked


async def text(cluster: Cluster, browser: Browser, path: str, status: int = 200) -> str:
    return (await during(cluster, browser.get(path, status))).text


def append(cluster: Cluster, index: int, *values: bytes, each_in_a_batch: bool = False) -> None:
    partition = cluster.nodes[cluster.leader(index)].node.replicas.get("t", index)
    assert partition is not None
    records = [Record(at, FIRST_MS + at, b"key-%d" % at, value) for at, value in enumerate(values)]
    for batch in [[one._replace(offset=0)] for one in records] if each_in_a_batch else [records]:
        partition.append(memoryview(bytearray(build_batch(batch))), AppendOrigin.CLIENT, cluster.clock.wall_ms())


@asynccontextmanager
async def filled(node_id: int = 2) -> AsyncIterator[tuple[Cluster, Browser]]:
    """Each partition has three records, whose values name it; the console of one of the nodes that share them."""
    async with Cluster() as cluster:
        for index in range(ALL_PARTITIONS):
            append(cluster, index, *(b"value-%d-%d" % (index, at) for at in range(3)))
        assert {cluster.leader(index) for index in range(ALL_PARTITIONS)} == set(NODES)
        async with browsing(cluster.nodes[node_id]) as browser:
            yield cluster, browser


@pytest.mark.parametrize("node_id", NODES)
async def test_messages_of_all_partitions_are_shown_at_each_console(node_id: int) -> None:
    async with filled(node_id) as (cluster, browser):
        newest = await text(cluster, browser, "/messages?topic=t")
        assert all(f"value-{index}-{at}" in newest for index in range(ALL_PARTITIONS) for at in range(3))
        for start in ("from=offset&offset=1", "from=time&time=2023-11-14T22:13:20.001Z"):
            later = await text(cluster, browser, f"/messages?topic=t&{start}")
            assert [later.count(f"-{at} ") for at in range(3)] == [0, ALL_PARTITIONS * 2, ALL_PARTITIONS * 2]
        assert "6 found in 18 offsets" in await text(cluster, browser, "/messages?topic=t&key=key-1&from=oldest")
        for index in range(ALL_PARTITIONS):
            assert f"value-{index}-2" in await text(cluster, browser, f"/message?topic=t&partition={index}&offset=2")
            await text(cluster, browser, f"/message?topic=t&partition={index}&offset=3", 404)


@pytest.mark.long
async def test_all_partitions_are_downloaded() -> None:
    async with filled() as (cluster, browser), browser.session.get("/download?topic=t&from=oldest") as answer:
        rows = [json.loads(line) for line in (await during(cluster, answer.read())).splitlines()]
    assert [row["value"] for row in rows] == [
        f"value-{index}-{at}" for index in range(ALL_PARTITIONS) for at in range(3)
    ]


async def test_records_of_open_and_aborted_transactions_are_left_out_wherever_they_are() -> None:
    async with filled() as (cluster, browser):
        producer = Producer(cluster, "pay", await cluster.coordinator(TRANSACTION, "pay"))
        await producer.init()
        for index in range(ALL_PARTITIONS):
            assert await producer.send(index, b"aborted") == "none"
        await producer.end(commit=False)
        await cluster.clock.run(1_000)
        for index in range(ALL_PARTITIONS):
            append(cluster, index, b"after")
            assert await producer.send(index, b"open") == "none"
        committed = await text(cluster, browser, "/messages?topic=t&from=oldest")
        uncommitted = await text(cluster, browser, "/messages?topic=t&from=oldest&isolation=uncommitted")
    assert [committed.count(each) for each in ("aborted", "after", "open ")] == [1, ALL_PARTITIONS, 1]  # in the form
    assert [uncommitted.count(each) for each in ("aborted", "after", "open ")] == [7, ALL_PARTITIONS, 7]


async def test_records_that_retention_was_faster_with_are_passed_over() -> None:
    async with filled() as (cluster, browser):
        for index in range(ALL_PARTITIONS):
            asked = (DeleteRecordsPartition(partition_index=index, offset=2),)
            topics = (DeleteRecordsTopic(name="t", partitions=asked),)
            await cluster.ask(cluster.client(cluster.leader(index)), "delete_records", 2, topics=topics, timeout=MINUTE)
        at = ",".join(f"{index}:0" for index in range(ALL_PARTITIONS))
        page = await text(cluster, browser, f"/messages?topic=t&at={at}")
    assert [sum(f"value-{index}-{at}" in page for index in range(ALL_PARTITIONS)) for at in range(3)] == [0, 0, 6]


async def test_a_browser_follows_what_others_lead() -> None:
    async with filled() as (cluster, browser), browser.session.get("/tail?topic=t") as answer:
        reading = asyncio.ensure_future(answer.content.readuntil(b"\n\n"))
        for index in range(ALL_PARTITIONS):
            append(cluster, index, b"new-%d" % index)
            told = (await during(cluster, reading)).decode()
            assert f"new-{index}" in told
            reading = asyncio.ensure_future(answer.content.readuntil(b"\n\n"))
        reading.cancel()


async def test_a_partition_whose_leader_has_gone_is_named() -> None:
    async with filled() as (cluster, browser):
        gone = [index for index in range(ALL_PARTITIONS) if cluster.leader(index) == 3]
        await cluster.kill(3)
        page = await text(cluster, browser, "/messages?topic=t")
        for index in range(ALL_PARTITIONS):
            assert (f"t-{index} cannot be read:" in page) == (f"value-{index}-0" not in page) == (index in gone)
        for query in (f"partition={gone[0]}", "from=oldest"):
            refused = await text(cluster, browser, f"/download?topic=t&{query}", 409)
            assert f"t-{gone[0]} cannot be read:" in refused
        at = ",".join(f"{index}:2" for index in range(ALL_PARTITIONS) if index not in gone)
        async with browser.session.get(f"/download?topic=t&at={at}") as answer:
            lines = (await during(cluster, answer.read())).splitlines()
    assert len(lines) == ALL_PARTITIONS - len(gone)


async def test_what_another_broker_refuses_keeps_no_page_from_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker needs READ to fetch from another one, which an operator may not have given it."""

    async def refused(_reach: object, broker_id: int, _call: object) -> None:
        raise TopicAuthorization(f"broker {broker_id} answers: not you")

    async with filled() as (cluster, browser):
        monkeypatch.setattr(topic_reader, "ask_by", refused)
        here = [index for index in range(ALL_PARTITIONS) if cluster.leader(index) == 2]
        for query in ("", "&key=key-0&from=oldest"):
            page = await text(cluster, browser, f"/messages?topic=t{query}")
            for index in range(ALL_PARTITIONS):
                assert (f"value-{index}-0" in page) == (index in here)
                assert (f"t-{index} cannot be read: broker" in page) == (index not in here)
        assert "not you" in await text(cluster, browser, "/download?topic=t&from=oldest", 413)
        async with browser.session.get("/tail?topic=t") as answer:
            append(cluster, here[0], b"new")
            assert "new" in (await during(cluster, answer.content.readuntil(b"\n\n"))).decode()


@pytest.mark.parametrize("node_id", NODES)
async def test_sizes_and_what_transactions_hold_are_those_of_all_leaders(node_id: int) -> None:
    async with filled(node_id) as (cluster, browser):
        producer = Producer(cluster, "pay", await cluster.coordinator(TRANSACTION, "pay"))
        await producer.init()
        for index in range(ALL_PARTITIONS):
            assert await producer.send(index, b"open") == "none"
        (topic,) = [row for row in await rows(cluster, browser, "/topics") if row[0] == "t"]
        each = [row for row in await rows(cluster, browser, "/topic?name=t") if row[0].isdecimal()]
        held = [row for row in await rows(cluster, browser, "/transactions") if row[0].startswith("t-")]
    assert topic[3] == str(ALL_PARTITIONS * 4)
    assert topic[4] == "1.2 kB"
    assert [row[7] for row in each] == ["196 B"] * ALL_PARTITIONS
    assert [(row[0], row[1], row[2], row[3]) for row in held] == [
        (f"t-{index}", "3", "1", "pay") for index in range(ALL_PARTITIONS)
    ]


async def rows(cluster: Cluster, browser: Browser, path: str) -> list[list[str]]:
    """The texts of the cells of each row."""
    async with browser.session.get(path) as answer:
        source = await during(cluster, answer.text())
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in source.split("<tr")]
    return [[re.sub(r"<[^>]*>", "", cell).strip() for cell in row] for row in found if row]
