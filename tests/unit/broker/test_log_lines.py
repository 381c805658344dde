"""Warnings that repeat are left out and counted; the journal of systemd is told the priority of a line."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.logging import LINES, MOST_REMEMBERED, PERIOD_S, WARNINGS, RepeatedLines, configure
from tests.unit.broker.rig import Rig
from tests.unit.broker.test_logging import lines, restored

__all__ = ["restored"]  # a fixture


class Time:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def file(time: Time) -> io.StringIO:
    written = io.StringIO()
    configure("info", "json", written, time)
    return written


def warn(times: int, event: str = "failed", **fields: Any) -> None:
    for _ in range(times):
        structlog.get_logger("x").warning(event, **fields)


def test_the_same_warning_about_the_same_partition_is_left_out_and_counted(file: io.StringIO, time: Time) -> None:
    warn(LINES + 7, partition="a-0", error="1")
    found = lines(file)
    assert len(found) == LINES
    assert [line.get("further_lines") for line in found] == [None] * (LINES - 1) + ["left out for a minute"]
    time.now_s = PERIOD_S
    warn(2, partition="a-0", error="2")
    assert [line.get("left_out") for line in lines(file)[LINES:]] == [7, None]


def test_others_are_not_left_out_for_it(file: io.StringIO) -> None:
    warn(LINES + 1, partition="a-0")
    written = len(lines(file))
    warn(1, partition="a-1")
    warn(1, event="another", partition="a-0")
    for _ in range(LINES + 1):
        structlog.get_logger("x").info("failed", partition="a-0")
    assert len(lines(file)) == written + 2 + LINES + 1


def test_who_listens_to_warnings_hears_all_and_bugs_are_all_counted(
    monkeypatch: pytest.MonkeyPatch, time: Time
) -> None:
    file = io.StringIO()
    heard: list[str] = []
    monkeypatch.setattr(WARNINGS, "listener", lambda level, _event: heard.append(level))
    tracebacks = configure("info", "json", file, time)
    for _ in range(LINES + 5):
        structlog.get_logger("x").error("failed", exc_info=RuntimeError("broken"))
    assert (len(lines(file)), heard, tracebacks.count) == (LINES, ["error"] * (LINES + 5), LINES + 5)


def test_no_more_is_remembered_than_a_thousand_subjects(time: Time) -> None:
    limit = RepeatedLines(time)
    for number in range(MOST_REMEMBERED + 50):
        limit(None, "warning", {"event": "failed", "client": number})
    for _ in range(LINES):
        limit(None, "warning", {"event": "failed", "client": 0})  # forgotten, so counted anew
    with pytest.raises(structlog.DropEvent):
        limit(None, "warning", {"event": "failed", "client": 0})


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "journal"
    with path.open("w") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
    yield path


@pytest.mark.parametrize("line_format", ["auto", "json"])
def test_each_line_to_the_journal_begins_with_its_priority(journal: Path, line_format: str) -> None:
    with journal.open("a") as stream:
        configure("info", line_format, stream)
        log = structlog.get_logger("x")
        log.info("started")
        log.warning("odd")
        log.error("broken", exc_info=RuntimeError("twice"))
    written = journal.read_text().splitlines()
    assert [line[:3] for line in written[:3]] == ["<6>", "<4>", "<3>"]
    assert {line[:3] for line in written[2:]} == {"<3>"}
    if line_format == "json":
        assert [json.loads(line[3:])["event"] for line in written] == ["started", "odd", "broken"]
    else:
        assert "RuntimeError: twice" in written[-1]


def test_another_file_than_the_journal_gets_no_priorities(journal: Path, tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as stream:
        configure("info", "auto", stream)
        structlog.get_logger("x").info("started")
    assert (tmp_path / "file").read_text().startswith("{")


async def test_the_first_line_of_a_start_is_for_people() -> None:
    with capture_logs() as said:
        async with Rig() as rig:
            (address,) = rig.node.bound.addresses.values()
            (folder,) = rig.node.local.config.log_dirs
    first = next(line for line in said if line["log_level"] != "debug")
    assert first["event"].startswith("Odradek ")
    assert f"  kafka://{address}  data " in first["event"]
    assert first["event"].endswith(folder)
    assert first["new_folders"] == [folder]
