"""What clients have chosen does nothing to the terminal of who looks at it."""

from __future__ import annotations

import json

import pytest

from odradek.cli.output import Output
from odradek.terminal import beginning, columns_of, printable

HOSTILE = "\x1b]0;owned\x07\u202eoN\u200b\n\x9b31m"


def test_a_table_has_no_control_bidi_or_zero_width_characters(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).table(["group", "clients"], [[HOSTILE, [HOSTILE]], ["注文 é", None]])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    assert r"\x1b]0;owned\x07\u202eoN\u200b\n\x9b31m" in lines[1]
    assert lines[2].startswith("注文 é")


def test_columns_stand_below_each_other_with_wide_letters_too(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["billing", "グループ", "e\u0301te\u0301", "注文 é"]
    Output(as_json=False).table(["group", "lag"], [[name, 7] for name in names])
    lines = capsys.readouterr().out.splitlines()
    assert {columns_of(line) for line in lines[1:]} == {len("グループ") * 2 + 3}
    assert lines[2:4] == ["グループ  7", "e\u0301te\u0301       7"]


@pytest.mark.parametrize(("columns", "expected"), [(9, "グループ1"), (8, "グループ"), (7, "グルー"), (1, ""), (0, "")])
def test_a_line_ends_at_the_edge_of_the_screen(columns: int, expected: str) -> None:
    assert beginning("グループ1", columns) == expected


def test_one_document_is_printed_though_there_is_nothing_to_tell(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).end()
    assert json.loads(capsys.readouterr().out) == []
    out = Output(as_json=True)
    out.result({"topic": "t"}, "deleted")
    out.end()
    assert json.loads(capsys.readouterr().out) == [{"topic": "t", "result": "deleted"}]
    for document in ({"a": 1}, [1]):
        out = Output(as_json=True)
        out.document(document)
        out.end()
        assert json.loads(capsys.readouterr().out) == document


def test_what_was_done_or_refused_has_none_either(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=False)
    out.result({"group": HOSTILE}, "deleted")
    out.failure({"group": HOSTILE}, "NON_EMPTY_GROUP", "it has members")
    told = capsys.readouterr()
    assert told.out.removesuffix("\n").isprintable()
    assert told.err.removesuffix("\n").isprintable()


def test_json_has_the_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).table(["group"], [[HOSTILE]])
    text = capsys.readouterr().out
    assert json.loads(text) == [{"group": HOSTILE}]
    assert text.isascii() and "\x1b" not in text


def test_half_of_a_surrogate_pair_is_its_escape() -> None:
    assert printable("\udc80") == r"\udc80"
