"""Lines of the journal and of the report: what belongs to what, and what only repeats itself."""

from __future__ import annotations

from typing import Any

from odradek import report
from odradek.report import JournalEntry

ASKED = {"topics": [{"name": "orders"}], "allow_auto_topic_creation": False}


def entry(at: float, api: str = "Metadata", leader: int = 1, client_id: str = "billing", **more: Any) -> JournalEntry:
    answer = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "leader_id": leader}]}]}
    given: dict[str, Any] = {"request": ASKED, "answer": answer, "outcome": "answered", **more}
    return JournalEntry(at, "request", "127.0.0.1:5", "PLAINTEXT", client_id, api, 12, **given)


def lines(*entries: JournalEntry) -> list[str]:
    fields = JournalEntry.__slots__
    found = [{name: getattr(one, name) for name in fields} for one in entries]
    section, *text = report.journal_text({"entries": found, "mark": 1}).splitlines()
    assert section == "last requests:"
    return [line.strip() for line in text[: text.index("warnings: none")]]


def test_members_and_partitions_are_told_apart() -> None:
    answer = {
        "error_code": "NONE",
        "generation_id": 0,
        "members": [
            {"member_id": "a", "group_instance_id": None, "metadata_base64": "AA=="},
            {"member_id": "b", "topics": [{"name": "t", "partitions": [0, 1]}, {"name": "u", "partitions": []}]},
        ],
    }
    line = str(entry(0, "JoinGroup", request={"protocols": [], "timeout": -1}, answer=answer))
    _, _, shown = line.partition(" JoinGroup v12 ")
    assert shown == (
        "timeout=-1 -> generation_id=0 "
        "members=[{member_id=a} {member_id=b topics=[{name=t partitions=[0,1]} {name=u}]}]"
    )


def test_a_question_with_the_same_answer_is_told_once_with_a_count() -> None:
    told = lines(entry(1), entry(2, "Produce"), entry(3.5), entry(4, client_id="shipping"), entry(5.25))
    assert [line.split()[1:3] for line in told] == [
        ["billing", "Metadata"],
        ["billing", "Produce"],
        ["shipping", "Metadata"],
    ]
    assert told[0].endswith("(and 2 times more, until " + entry(5.25).at + ")")
    assert "times more" not in told[1] + told[2]


def test_another_answer_and_a_request_that_changes_something_are_told_again() -> None:
    assert len(lines(entry(1), entry(2, leader=2), entry(3))) == 3
    assert len(lines(entry(1, "Produce"), entry(2, "Produce"))) == 2
    assert len(lines(entry(1), entry(2, outcome="waiting", answer=None))) == 2


def test_a_follower_s_fetch_is_not_told_in_any_version() -> None:
    told = {"responses": [{"partitions": [{"records": "70 bytes"}]}]}
    before, since, reader = (
        entry(1, "Fetch", request=request, answer=told)
        for request in ({"replica_id": 2}, {"replica_state": {"replica_id": 2}}, {"replica_state": {"replica_id": -1}})
    )
    shown, hidden = lines(before, since, reader)
    assert "replica_id=-1" in shown
    assert hidden.startswith("(and 2 Fetches")
