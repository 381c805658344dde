"""Messages are filtered by an expression in jq, in a process that a bad or endless expression cannot leave."""

from __future__ import annotations

import importlib.util
import json
import resource
from urllib.parse import quote

import pytest

from broker.console import filters, searches
from broker.console.filters import Filter, FilterError
from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin
from tests.unit.broker.console.browsing import Browser, Html, browsing
from tests.unit.broker.console.test_messages import append, orders
from tests.unit.broker.rig import Rig

needs_jq = pytest.mark.skipif(not filters.is_there(), reason="jq is not installed (the extra `filter`)")

RECORD = b'{"partition":0,"offset":1,"timestamp":1,"key":"k","value":{"id":7},"headers":{"a":"b"}}\n'


async def filtered(browser: Browser, expression: str, more: str = "") -> Html:
    return await browser.get(f"/messages?topic=orders&filter={quote(expression)}{more}")


async def verdicts(expression: str, *records: bytes, seconds: float = 100.0) -> list[bool]:
    async with Filter(expression) as asked:
        return await asked.passing(records or (RECORD,), seconds)


@needs_jq
@pytest.mark.parametrize(
    ("expression", "passes"),
    [
        (".value.id == 7", True),
        (".value.id == 8", False),
        ('.headers.a == "b" and .key == "k" and .partition == 0 and .offset == 1 and .timestamp == 1', True),
        (".value.user.id == 7", False),
        (".value.user", False),
        ("select(.value.id > 6)", True),
        ("empty", False),
        (".value.id.x", False),  # an error is no pass
        ("0", True),
        ('.value | has("id")', True),
    ],
)
async def test_a_record_passes_by_any_value_but_null_and_false(expression: str, passes: bool) -> None:
    assert await verdicts(expression) == [passes]


@needs_jq
async def test_a_page_shows_the_records_that_pass_and_goes_on_where_it_ended() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(300))
        append(rig, "orders", (b"text", b"no JSON"), (None, None))
        async with browsing(rig) as browser:
            some = await filtered(browser, '.value.user.id == 6 and .headers.h == "1"')
            assert "42 found in 302 offsets, up to the end" in some.text
            both = await filtered(browser, ".value.user.id == 6", "&key=k13")
            assert "1 found in 302 offsets" in both.text
            first = await filtered(browser, ".offset >= 0", "&from=oldest")
            assert "50 found in 50 offsets" in first.text
            (on,) = {link for link in first.links() if "at=0%3A50" in link and "filter=" in link}
            assert "50 found in 50 offsets" in (await browser.get(f"/{on}")).text
            as_text = await filtered(browser, '.value == "no JSON" or .value == null')
            assert "2 found in 302 offsets" in as_text.text
            wrong = await filtered(browser, ".value.id > 5 and (.value | length) > 1")
            assert "It has no answer for" not in wrong.text
            partly = await filtered(browser, ".value.id.x")
            assert "It has no answer for 301 of them, such as: Cannot index number with" in partly.text


@needs_jq
async def test_what_jq_cannot_read_is_said_beside_the_field() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(3))
        async with browsing(rig) as browser:
            page = await filtered(browser, ".value ==")
            assert "jq cannot read the expression: syntax error" in page.text
            (field,) = [one for one in page.all("input") if one.get("name") == "filter"]
            assert field["aria-invalid"] == "true"
            assert field["value"] == ".value =="
            assert field["aria-describedby"] in [one.get("id") for one in page.all("span")]
            assert "found in" not in page.text
            assert "longer than 2,000 characters" in (await filtered(browser, "." * 2001)).text


@needs_jq
@pytest.mark.parametrize("expression", ["[repeat(1)]", "[range(1e9) | tostring * 1000]", "def f: 1 + f; f"])
async def test_an_expression_that_would_fill_the_memory_ends_its_process_alone(expression: str) -> None:
    with pytest.raises(FilterError, match="more memory or time than it may have"):
        await verdicts(expression)


@needs_jq
async def test_an_endless_expression_is_ended_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "LEAST_S", 0.05)
    async with Filter("last(repeat(1))") as asked:
        with pytest.raises(FilterError, match="did not come to an end for a record"):
            await asked.passing([RECORD], 0.1)
        process = asked._process
    assert process is not None
    assert process.returncode == -9


@needs_jq
async def test_what_was_looked_at_before_the_time_was_over_counts() -> None:
    """The next page begins with the record that takes so long."""
    slow = RECORD.replace(b'"id":7', b'"id":0')
    found = await verdicts("if .value.id == 0 then last(repeat(1)) else true end", RECORD, RECORD, slow, seconds=0.5)
    assert found == [True, True]


@needs_jq
async def test_what_was_looked_at_too_late_is_no_answer_about_the_next_records() -> None:
    """Attack: a browser that followed with an expression which was late once saw others than those that passed."""
    slow, other = RECORD.replace(b'"id":7', b'"id":0'), RECORD.replace(b'"id":7', b'"id":6')
    async with Filter("if .value.id == 0 then last(range(300000)) > 0 else .value.id == 7 end") as asked:
        await asked.passing([slow, RECORD], 0.01)
        assert await asked.passing([other, RECORD], 100) == [False, True]


@needs_jq
async def test_the_time_of_an_expression_is_that_of_a_record() -> None:
    """A follow or a download of many records was ended when all of them had taken ten seconds."""
    async with Filter("last(range(2000000)) > 0") as asked:
        process = asked._process
        assert process is not None
        before, _ = resource.prlimit(process.pid, resource.RLIMIT_CPU)
        assert await asked.passing([RECORD, RECORD], 100) == [True, True]
        assert before < resource.prlimit(process.pid, resource.RLIMIT_CPU)[0]


@needs_jq
async def test_an_expression_reads_no_file_and_no_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("told")
    (folder / "secret.json").write_text('"told"')
    (folder / "code.jq").write_text("def told: true;")
    monkeypatch.setenv("ODRADEK_TOLD", "told")
    assert await verdicts("env | length == 0", RECORD) == [True]
    assert await verdicts("$ENV.ODRADEK_TOLD", RECORD) == [False]
    for expression in (f'import "{folder}/secret" as $x; $x', f'include "{folder}/code"; told'):
        with pytest.raises(FilterError, match="cannot read the expression"):
            await verdicts(expression)


@needs_jq
async def test_a_record_is_told_whole_whatever_its_bytes_are() -> None:
    value = json.dumps({"a": "}\n{", "b": "\u2028\ud800"}).encode()
    record = Record(0, 0, b"\xff\x00", value, ((b"h\xff", b"\x00"), (b"none", None)))
    async with Rig() as rig:
        await rig.create("orders")
        partition = rig.node.replicas.get("orders", 0)
        assert partition is not None
        partition.append(memoryview(build_batch([record])), AppendOrigin.CLIENT, rig.clock.wall_ms())
        async with browsing(rig) as browser:
            page = await filtered(browser, r'.value.a == "}\n{" and .headers.none == null and (.key | length) == 2')
            assert "1 found in 1 offsets" in page.text


async def test_without_the_library_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(3))
        async with browsing(rig) as browser:
            page = await filtered(browser, ".value")
            assert page.text.count("pip install '/path/to/odradek[filter]'") == 2
            assert "filter" not in [one.get("name") for one in page.all("input")]


@needs_jq
async def test_records_that_do_not_pass_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search through many large records is not over because of those that it has left out."""
    monkeypatch.setattr(searches, "FILTERED_AT_ONCE", 10)
    async with Rig() as rig:
        await rig.create("orders")
        for number in range(12):
            append(rig, "orders", (b"k", json.dumps({"n": number, "text": "x" * 1_000_000}).encode()))
        async with browsing(rig) as browser:
            page = await filtered(browser, ".offset == 11", "&from=oldest")
            assert "1 found in 12 offsets" in page.text
