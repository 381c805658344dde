"""What an answer of the control interface may cost: it is cut, says so, and goes on with the next."""

from __future__ import annotations

import base64
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.testkit.control import report
from broker.testkit.control.app import ENDPOINTS
from broker.testkit.control.budget import KEPT_BYTES, MOST, Budget, SpentError
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.groups import group_json
from broker.testkit.control.histories import EVENT_BYTES, events_of
from broker.testkit.inspection.groups import GroupView, MemberView
from broker.testkit.inspection.partitions import PartitionView
from odradek.record import Record as KitRecord
from protocol.records.build import Record
from tests.doubles.workers import LoopWorkers
from tests.unit.broker.console.test_cost import MEGABYTE, append_often
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control, keep_journal
from tests.unit.broker.wire import batch, frame, produce


async def test_an_answer_has_so_many_bytes_of_records_and_the_next_goes_on() -> None:
    """Attack: fourteen small batches became an answer of gigabytes."""
    async with Rig() as rig:
        await rig.create("t")
        append_often(rig, "t", 14, Record(0, 0, b"k", b"v" * MEGABYTE))
        first = await control(rig, "GET", "/topics/t/records")
        assert len(first["records"]) == KEPT_BYTES // MEGABYTE == 8
        assert (first["more"], first["next"]) == (True, {"0": 8})
        second = await control(rig, "GET", "/topics/t/records", **{"from": "0:8"})
        assert [one["offset"] for one in second["records"]] == list(range(8, 14))
        assert (second["more"], second["passed_over"]) == (False, [])


async def test_of_a_record_that_is_too_large_an_answer_has_the_beginning_and_the_kit_says_so() -> None:
    async with Rig() as rig:
        await rig.create("t")
        append_often(rig, "t", 1, Record(0, 0, b"k", b"v" * (MOST.content + 5), ((b"h", None),) * 20_000))
        (record,) = (await control(rig, "GET", "/topics/t/records"))["records"]
        assert (len(record["value"]), len(record["headers"])) == (MOST.content, MOST.headers)
        assert record["left_out"] == {"key": 0, "value": 5, "headers": 10_000, "header_content": 0}
        with pytest.raises(ValueError, match="offset 0 of t-0 is too large for the control interface"):
            KitRecord.of(record)


async def test_a_wait_keeps_only_so_many_bytes_of_records_that_match() -> None:
    async with Rig() as rig:
        await rig.create("t")
        append_often(rig, "t", 14, Record(0, 0, b"k", b"v" * MEGABYTE))
        with pytest.raises(ControlError, match="8 records match") as raised:
            await control(rig, "POST", "/topics/t/wait", key="k", count=20, timeout=0)
        assert raised.value.status == 413
        found = await control(rig, "POST", "/topics/t/wait", key="k", count=2, timeout=0, **{"from": "0:12"})
        assert len(found["records"]) == 2


async def test_records_are_compared_and_written_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    class Noting(LoopWorkers):
        async def call(self, work):  # type: ignore[no-untyped-def]
            called.append(getattr(getattr(work, "func", work), "__name__", ""))
            return await super().call(work)

    async with Rig(workers=Noting()) as rig:
        await rig.create("t")
        append_often(rig, "t", 1, Record(0, 0, b"k", b"v" * MEGABYTE))
        called.clear()
        await control(rig, "POST", "/topics/t/wait", key="k", timeout=0)
    assert [name for name in called if name in ("decode_within", "look_at", "_answer")] == [
        "decode_within",
        "look_at",
        "_answer",
    ]


@pytest.mark.long
async def test_the_journal_leaves_out_the_oldest_entries_if_all_would_cost_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Rig() as rig:
        await rig.create("t")
        keep_journal(rig)
        for _ in range(5):
            await rig.connect().ask("api_versions", 3, client_software_name="a", client_software_version="1")
        monkeypatch.setattr("broker.testkit.control.report.ENTRY_WORK", 1 << 18)
        answer = await control(rig, "GET", "/journal")
    assert answer["left_out"] > 0
    assert answer["entries"]
    whole = answer["left_out"] + len(answer["entries"])
    assert whole >= 10


def test_what_changes_something_does_not_end_with_its_client() -> None:
    looking = {one.path for one in ENDPOINTS if one.only_looks and one.method != "GET"}
    assert looking == {
        "/exactly-once",
        "/faults/{id}/wait",
        "/groups/{group}/wait",
        "/topics/{topic}/wait",
        "/transactions/{transactional_id}/wait",
    }


async def test_topics_that_are_compared_whole_have_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.testkit.control.report.MOST_BYTES", 5 * MEGABYTE)
    async with Rig() as rig:
        for topic in ("source", "sink"):
            await rig.create(topic)
            append_often(rig, topic, 6, Record(0, 0, b"k", b"v" * MEGABYTE))
        with pytest.raises(ControlError, match="compare smaller topics"):
            await control(rig, "POST", "/exactly-once", source="source", sink="sink", timeout=0)


def test_of_a_group_as_many_members_are_shown_as_there_is_room_for() -> None:
    """Attack: members that subscribe to tens of thousands of topics each."""
    topics = frozenset(f"{number:0200}" for number in range(10_000))
    members = [MemberView(f"m{number}", "c", "/h", None, "p", {}, topics) for number in range(20)]
    shown = group_json(GroupView("g", "Stable", members=members))
    assert (len(shown["members"]), shown["left_out"]) == (5, 15)
    assert "left_out" not in group_json(GroupView("g", "Stable", members=members[:1]))


async def test_a_report_looks_at_each_partition_once_and_says_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: Counter[str] = Counter()

    class Counting(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            looked_at[self] += 1
            return str.__eq__(self, other)

    async def views(_node: Any, topics: list[str]) -> dict[str, PartitionView]:
        return {topic: PartitionView(Counting(topic), 0, 0, 0, 0, 1) for topic in topics}

    monkeypatch.setattr(report, "read_topics", views)
    async with Rig() as rig:
        keep_journal(rig)
        for number in range(20):
            await rig.create(f"t{number}")
        whole = await control(rig, "GET", "/report")
        monkeypatch.setattr(report, "Budget", partial(Budget, kept=300))
        part = await control(rig, "GET", "/report")
    assert max(looked_at.values()) <= 4  # 20 and more when each topic looked at all partitions
    assert (len(whole["topics"]), whole["unknown"]) == (20, [])
    assert 0 < len(part["topics"]) < 20
    assert part["unknown"] == [
        f"{20 - len(part['topics'])} more topics, groups and transactions are there than a report shows"
    ]


@pytest.mark.parametrize(
    ("values", "budget"),
    [
        ([b""] * 200, Budget(MOST, kept=100 * EVENT_BYTES)),
        ([b"x" * MEGABYTE] * 3, Budget(MOST, work=20 * MEGABYTE)),
    ],
)
def test_a_history_that_would_cost_too_much_is_not_read_to_its_end(
    tmp_path: Path, values: list[bytes], budget: Budget
) -> None:
    """Attack: batches of some kB with a million records, or a hundred megabytes, in what a history has recorded."""
    path = tmp_path / "h.jsonl"
    sent = frame("produce", 9, 1, **produce("t", {0: batch(*values)}))[4:]
    line = {"kind": "request", "id": "1.1", "connection": "c:1", "at": 0, "request": base64.b64encode(sent).decode()}
    path.write_text(json.dumps(line) + "\n")
    (event,) = events_of(path, str, Budget(MOST, work=1 << 30))
    assert len(event["records"]) == len(values)
    with pytest.raises(SpentError):
        events_of(path, str, budget)
