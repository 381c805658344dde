"""Log lines: their form, their level, and what becomes of them when they cannot be written."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime

import pytest
import structlog
from structlog.testing import capture_logs

from broker.logging import configure, log_loop_exceptions
from tests.unit.broker.rig import Rig


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class FullDisk(io.StringIO):
    is_full = False

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)

    def flush(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(file: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_away_from_a_terminal_lines_are_json_with_time_level_and_logger() -> None:
    file = io.StringIO()
    configure("info", "auto", file)
    structlog.get_logger("broker.network.server").info("listening", port=9092, raw=b"\x00")
    (line,) = lines(file)
    moment = datetime.fromisoformat(str(line.pop("timestamp")))
    assert moment.tzinfo is not None
    assert line == {
        "event": "listening",
        "port": 9092,
        "raw": repr(b"\x00"),
        "level": "info",
        "logger": "broker.network.server",
    }


@pytest.mark.parametrize(
    ("file", "line_format", "is_json"),
    [
        (Terminal(), "auto", False),
        (Terminal(), "json", True),
        (io.StringIO(), "console", False),
    ],
)
def test_the_format_fits_the_terminal_unless_given(file: io.StringIO, line_format: str, is_json: bool) -> None:
    configure("info", line_format, file)
    structlog.get_logger("x").info("listening", port=9092)
    assert file.getvalue().startswith("{") == is_json
    assert "listening" in file.getvalue()
    assert ("\x1b[" in file.getvalue()) == (file.isatty() and not is_json)


def test_lines_below_the_level_are_not_written() -> None:
    file = io.StringIO()
    configure("warning", "json", file)
    for log in (structlog.get_logger("ours"), logging.getLogger("theirs")):
        log.info("no")
        log.warning("yes")
    assert [(line["event"], line["logger"], line["level"]) for line in lines(file)] == [
        ("yes", "ours", "warning"),
        ("yes", "theirs", "warning"),
    ]


def test_a_line_that_finds_no_room_is_lost_and_harms_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    file = FullDisk()
    configure("info", "json", file)
    for file.is_full in (False, True, False):
        for log in (structlog.get_logger("ours"), logging.getLogger("theirs")):
            log.info("lost" if file.is_full else "written")
    assert [line["event"] for line in lines(file)] == ["written"] * 4
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("line_format", ["json", "console"])
def test_an_exception_comes_with_its_traceback(line_format: str) -> None:
    file = io.StringIO()
    configure("info", line_format, file)
    try:
        secret = "not to be told"
        raise RuntimeError("broken")
    except RuntimeError:
        structlog.get_logger("x").exception("failed")
        logging.getLogger("y").exception("failed there")
    assert file.getvalue().count("RuntimeError: broken") == 2
    assert file.getvalue().count("Traceback") == 2
    assert secret not in file.getvalue(), "tracebacks show no variables"
    if line_format == "json":
        assert [line["event"] for line in lines(file)] == ["failed", "failed there"]


def test_a_name_that_a_client_has_chosen_does_not_move_the_terminal() -> None:
    file = Terminal()
    configure("info", "console", file)
    hostile = "\x1b]0;mine\x07\x9b2J\u202e\r\nforged"
    structlog.get_logger("x").info("not authorized", principal=hostile)
    structlog.get_logger("x").warning(f"refused {hostile}")
    logging.getLogger("y").error(hostile)
    try:
        raise ValueError(hostile.partition("\r")[0])
    except ValueError:
        structlog.get_logger("x").exception("failed")
    written = re.sub(r"\x1b\[\d*m", "", file.getvalue())  # the colours
    assert [char for char in written if not char.isprintable() and char != "\n"] == []
    assert not [line for line in written.splitlines() if line.startswith("forged")]
    assert written.count("mine") == 4


async def test_what_reaches_the_loop_is_logged_and_counted() -> None:
    file = io.StringIO()
    tracebacks = configure("info", "json", file)
    loop = asyncio.get_running_loop()
    log_loop_exceptions(loop)
    done = loop.create_future()

    def fail() -> None:
        loop.call_soon(done.set_result, None)
        raise RuntimeError("broken")

    loop.call_soon(fail)
    await done
    loop.call_exception_handler({"message": "without an exception"})
    assert tracebacks.count == 1
    with_traceback, without = lines(file)
    assert "RuntimeError: broken" in str(with_traceback["exception"])
    assert "fail" in str(with_traceback["handle"])
    assert (without["event"], without["level"], without["logger"]) == ("without an exception", "error", "asyncio")


@pytest.mark.parametrize(
    "pattern",
    [
        r"Transitioning from RECOVERY to RUNNING",  # Java and Go
        r"Kafka Server started",  # Python, with KRaft
        r"\[KafkaServer id=\d+\] started",  # Python and older Java, without it
        r"\[KafkaRaftServer nodeId=\d+\] Kafka Server started",  # kafka-python's own tests
    ],
)
async def test_a_start_is_seen_by_testcontainers(pattern: str) -> None:
    with capture_logs() as lines:
        async with Rig():
            pass
    assert [line["event"] for line in lines if re.search(pattern, json.dumps(line))] == ["started"]
