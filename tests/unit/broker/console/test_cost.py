"""What one request may cost: pages of records that unpack to gigabytes, searches, tails, and clients that go away."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import TypeVar

import pytest

from broker.console.ask import MOST, Few
from broker.console.formats import LONGEST, LONGEST_HEX, LONGEST_JSON, decoded
from broker.testkit.control.budget import LANE, Budget, SpentError, to_the_end
from broker.testkit.control.endpoint import ControlError
from protocol.records.build import Record, build_batch
from protocol.records.compression import Compression
from protocol.records.cut import RECORD_WORK
from storage.append_types import AppendOrigin
from tests.doubles.clock import ManualClock, settle
from tests.doubles.workers import HeldLane, LoopWorkers
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.test_download import rows
from tests.unit.broker.console.test_messages import append, orders
from tests.unit.broker.members import CONFIG, ClassicMember
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import keep_journal
from tests.unit.broker.wire import batch, produce

T = TypeVar("T")

MEGABYTE = 1 << 20


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> int:
    """A smaller budget for each answer, so that less has to be unpacked to spend it."""
    assert Budget.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(Budget.__init__.__kwdefaults__, "work", 16 * MEGABYTE)
    return 16 * MEGABYTE


def append_often(rig: Rig, topic: str, times: int, *records: Record) -> None:
    data = build_batch(list(records), compression=Compression.ZSTD)
    found = rig.node.replicas.get(topic, 0)
    assert found is not None
    for _ in range(times):
        found.append(memoryview(bytearray(data)), AppendOrigin.CLIENT, rig.clock.wall_ms())


async def test_a_page_keeps_only_what_it_shows_of_values_that_unpack_to_megabytes() -> None:
    """Attack: 14 records of 4 kB, of 120 MB of zeros each, took 2.3 GB for a page of 40 kB."""
    async with Rig() as rig:
        await rig.create("t")
        append_often(rig, "t", 14, Record(0, 0, b"k", bytes(8 * MEGABYTE)))
        async with browsing(rig) as browser:
            await browser.get("/messages?topic=t&from=oldest")  # loads the templates
            tracemalloc.start()
            try:
                page = await browser.get("/messages?topic=t&from=oldest")
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert page.text.count("8.4 MB") == 14
    assert peak < 8 * MEGABYTE


async def test_a_page_that_has_cost_enough_says_so_and_goes_on_with_the_next(work: int) -> None:
    async with Rig() as rig:
        await rig.create("t")
        append_often(rig, "t", 7, Record(0, 0, b"k", bytes(3 * MEGABYTE)))
        async with browsing(rig) as browser:
            first = await browser.get("/messages?topic=t&from=oldest")
            assert first.text.count("3.1 MB") == work // (3 * MEGABYTE) + 1 == 6
            assert "would cost more than one page may. Go on from there" in first.text
            (on, *_) = [link for link in first.links() if "at=0%3A6" in link]
            assert (await browser.get(f"/{on}")).text.count("3.1 MB") == 1


async def test_of_a_hundred_thousand_headers_a_page_shows_a_few_and_counts_the_rest() -> None:
    async with Rig() as rig:
        await rig.create("t")
        append_often(rig, "t", 2, Record(0, 0, None, b"v", ((b"h", None),) * 100_000 + ((b"n" * 900_000, b""),)))
        async with browsing(rig) as browser:
            page = await browser.get("/messages?topic=t")
            assert page.text.count("99,981 more") == 2
            assert "99,901 more headers are not shown" in (await browser.get("/message?topic=t&offset=0")).text


@pytest.mark.parametrize("form", ["auto", "json", "hex", "text"])
def test_a_value_is_never_shown_at_many_times_its_size(form: str) -> None:
    deep = b"[" * 150 + b"1," * 50_000 + b"1" + b"]" * 150
    for content in (deep, bytes(LONGEST), b"\x01" * LONGEST, b"[" + b"1e308," * 10_000 + b"1]"):
        text = decoded(content, Budget(MOST), form, indented=True).text
        assert text is not None
        assert len(text) <= max(LONGEST_JSON, 5 * LONGEST_HEX)


def test_json_that_would_be_too_long_if_it_were_indented_is_shown_as_it_is() -> None:
    deep = b"[" * 150 + b"1," * 50_000 + b"1" + b"]" * 150
    assert decoded(deep, Budget(MOST), indented=True) == (deep.decode(), "text", 0)
    assert decoded(b"[[1]]", Budget(MOST), indented=True).text == "[\n  [\n    1\n  ]\n]"


def test_a_budget_stops_work_that_costs_as_much_again() -> None:
    budget = Budget(MOST, work=100)
    budget.spend(100)
    assert budget.is_spent
    budget.spend(100)
    with pytest.raises(SpentError):
        budget.spend(1)


async def test_a_batch_whose_records_cannot_be_reached_is_passed_over_and_named(work: int) -> None:
    """Otherwise the page would never get further."""
    many = [Record(at, 0, None, None) for at in range(2 * work // RECORD_WORK + 100)]
    async with Rig() as rig:
        await rig.create("t")
        append_often(rig, "t", 1, *many)
        append(rig, "t", (b"after", b"v"))
        async with browsing(rig) as browser:
            page = await browser.get(f"/messages?topic=t&at=0:{len(many) - 1}")
    assert f"offsets {len(many) - 1} to {len(many) - 1} are in one batch, and were passed over" in page.text


async def test_entries_of_the_journal_and_assignments_are_cut() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        keep_journal(rig)
        member = ClassicMember(rig, "mail", "t")
        await member.enter({"t": range(5_000)})
        async with browsing(rig) as browser:
            group = await browser.get("/group?id=mail")
            assert "and 3,000 partitions that are not shown" in group.text
            await rig.connect().ask("delete_topics", 5, topic_names=("",) * 12_000, timeout=timedelta(seconds=1))
            journal = await browser.get("/journal?api=DeleteTopics")
            assert "The rest of it is not shown" in journal.text
            assert len(journal.text) < 100_000


class SlowWorkers(LoopWorkers):
    """What is called takes two seconds, from the time on when `clock` is set."""

    clock: ManualClock | None = None

    async def call(self, work: Callable[[], T]) -> T:
        if self.clock is not None:
            self.clock.advance(2_000)
        return await super().call(work)


async def test_a_search_stops_after_a_while_and_goes_on_from_there() -> None:
    workers = SlowWorkers()
    async with Rig(workers=workers) as rig:
        await rig.create("t")
        record = Record(0, 0, b"k", Random(1).randbytes(70_000))
        append_often(rig, "t", 10, record)
        async with browsing(rig) as browser:
            workers.clock = rig.clock
            page = await browser.get("/messages?topic=t&from=oldest&key=nowhere")
            workers.clock = None
    assert "0 found in 2 offsets" in page.text
    assert "stopped after five seconds. Go on from there" in page.text
    assert [link for link in page.links() if "at=0%3A2" in link]


@pytest.mark.usefixtures("work")
async def test_a_search_has_a_budget_of_bytes() -> None:
    async with Rig() as rig:
        await rig.create("t")
        append_often(rig, "t", 7, Record(0, 0, b"k", bytes(3 * MEGABYTE)))
        async with browsing(rig) as browser:
            page = await browser.get("/messages?topic=t&from=oldest&value=nowhere")
    assert "0 found in 6 offsets" in page.text
    assert "would cost more than one page may" in page.text


@pytest.mark.usefixtures("work")
async def test_a_search_for_a_download_may_cost_as_much_as_a_page_and_its_rows_again() -> None:
    """Attack: what was searched left too little for the rows, and a page of an error was sent among them."""
    large = json.dumps({"id": 1, "text": "x" * 300_000}).encode()
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(200))
        for _ in range(6):
            append(rig, "orders", (b"k", large))
        async with browsing(rig) as browser:
            assert len(await rows(browser, "from=oldest&field=id")) == 206


async def test_no_produce_waits_for_a_search_which_ends_with_its_client() -> None:
    """Attack: searches filled the threads in which batches are checked, and went on after their clients had gone."""
    workers = HeldLane(LANE)
    async with Rig(workers=workers) as rig:
        await rig.create("t")
        append_often(rig, "t", 1, Record(0, 0, b"k", b"v"))
        async with browsing(rig) as browser:
            search = asyncio.ensure_future(browser.get("/messages?topic=t&from=oldest&key=x"))
            await until(lambda: workers.lane(LANE).is_busy)
            data = batch(b"x" * 1_000, compression=Compression.GZIP)
            done = await rig.connect().ask("produce", 9, **produce("t", {0: data}))
            assert done.responses[0].partition_responses[0].error_code.name == "none"
            assert browser.app.searches.running.total() == 1
            search.cancel()
            await until(lambda: browser.app.searches.running.total() == 0)
            workers.run_next()


async def test_a_few_searches_run_at_once_and_one_of_a_user() -> None:
    searches = Few("searches", 2, 1)
    with searches.one("User:anna"), pytest.raises(ControlError, match="too many searches"), searches.one("User:anna"):
        pass
    with searches.one(None), searches.one(None), pytest.raises(ControlError), searches.one("User:anna"):
        pass
    assert not searches.running


async def test_what_changes_something_runs_to_its_end_though_its_client_has_gone() -> None:
    go, done = asyncio.Event(), asyncio.Event()

    async def change() -> None:
        await go.wait()
        done.set()

    request = asyncio.ensure_future(to_the_end(change()))
    await settle()
    request.cancel()
    await settle()
    assert request.cancelled()
    go.set()
    await settle()
    assert done.is_set()


async def test_work_for_a_client_that_has_gone_ends_at_its_next_step() -> None:
    workers = HeldLane(LANE)
    async with Rig(workers=workers) as rig:
        budget, ended = Budget(MOST), []

        def work() -> None:
            try:
                budget.spend(1)
            except SpentError:
                ended.append("here")

        request = asyncio.ensure_future(budget.run(rig.node, work))
        await settle()
        request.cancel()
        await settle()
        workers.run_next()
    assert ended == ["here"]


async def until(is_so: Callable[[], bool]) -> None:
    """Requests go through real sockets."""
    async with asyncio.timeout(60):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)
