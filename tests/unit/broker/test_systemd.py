"""What systemd is told: when the broker serves, that its loop lives, that it stops, and that it needs more time."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.process import Systemd
from tests.doubles.clock import ManualClock

UNIT = Path(__file__).parents[3] / "deploy" / "odradek.service"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        yield receiver


def told(manager: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(manager.recv(4096).decode())
        except BlockingIOError:
            return found


async def test_ready_then_signs_of_life_then_stopping(manager: socket.socket) -> None:
    clock = ManualClock()
    environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}
    systemd = Systemd(environ, clock)
    assert told(manager) == []
    systemd.ready("serves at localhost:9092")
    assert told(manager) == ["READY=1\nSTATUS=serves at localhost:9092", "WATCHDOG=1"]
    await clock.run(29_000)
    assert told(manager) == []
    await clock.run(31_000)
    assert told(manager) == ["WATCHDOG=1"] * 2
    systemd.stopping()
    assert told(manager) == ["STOPPING=1\nSTATUS=stopping"]
    await clock.run(30_000)
    assert told(manager).count("WATCHDOG=1") == 1, "a stop may take long"


async def test_a_long_start_asks_for_more_time_and_says_what_it_does(manager: socket.socket) -> None:
    clock = ManualClock()
    systemd = Systemd({"NOTIFY_SOCKET": manager.getsockname()}, clock)
    systemd.starting()
    await clock.run(9_000)
    assert told(manager) == []
    await clock.run(2_000)
    systemd.note("recovering logs: 7 of 9 done")
    await clock.run(10_000)
    more = "EXTEND_TIMEOUT_USEC=60000000\nSTATUS="
    assert told(manager) == [f"{more}starting", f"{more}recovering logs: 7 of 9 done"]
    systemd.ready("serves")
    await clock.run(30_000)
    assert told(manager) == ["READY=1\nSTATUS=serves"]
    systemd.stopping()
    await clock.run(11_000)
    assert told(manager) == ["STOPPING=1\nSTATUS=stopping", f"{more}stopping"]


@pytest.mark.parametrize("watchdog", [{}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}])
async def test_without_a_watchdog_of_ours_there_are_no_signs_of_life(
    watchdog: dict[str, str], manager: socket.socket
) -> None:
    clock = ManualClock()
    systemd = Systemd({"NOTIFY_SOCKET": manager.getsockname()} | watchdog, clock)
    systemd.ready("serves")
    await clock.run(120_000)
    assert told(manager) == ["READY=1\nSTATUS=serves"]


async def test_nothing_is_sent_where_nobody_listens(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone")}):
        systemd = Systemd(environ, ManualClock())
        systemd.ready("serves")
        systemd.stopping()


def test_the_unit_waits_for_the_broker_and_watches_it() -> None:
    text = UNIT.read_text()
    for line in ("Type=notify", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="):
        assert f"\n{line}\n" in text
    assert "\nWatchdogSec=" in text


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "odradek.service"
    unit.write_text(UNIT.read_text().replace("/opt/odradek/bin/odradek", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "odradek.service" in line] == []
