"""How a user's broker ends: never before its process does, and never after."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from odradek import Broker

pytestmark = pytest.mark.usefixtures("own_cluster")

PATIENCE_MS = 20_000

KILLED_BESIDE_A_FORKED_CHILD = """
import os, signal
from odradek import Broker

broker = Broker().start()
if not (child := os.fork()):
    os.closerange(1, 3)
    signal.pause()
print(broker.pid, child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

WITH_A_FORKED_CHILD_THAT_EXITS = """
import os, sys
from odradek import Broker

with Broker() as broker:
    if not (child := os.fork()):
        sys.exit()
    os.waitpid(child, 0)
    broker.restart()
    print(broker.running, broker.data_dir.exists())
"""

STARTED_AGAIN_AFTER_A_DEATH_OF_ITS_OWN = """
import gc, os, signal
from odradek import Broker

with Broker() as broker:
    death = os.pidfd_open(broker.pid)
    os.kill(broker.pid, signal.SIGKILL)
    os.waitid(os.P_PIDFD, death, os.WEXITED | os.WNOWAIT)
    os.close(death)
    broker.start()
    gc.collect()
"""


def run(program: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the program, with its temporary files in `folder`."""
    command = [sys.executable, "-I", *options, "-c", program]
    env = os.environ | {"TMPDIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)


def ends(pid: int) -> bool:
    """Whether the process has ended, or ends soon."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(PATIENCE_MS))
    finally:
        os.close(process)


def test_a_forked_child_that_outlives_the_process_does_not_keep_the_broker(tmp_path: Path) -> None:
    broker, child = map(int, run(KILLED_BESIDE_A_FORKED_CHILD, tmp_path).stdout.split())
    try:
        assert ends(broker)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_exits_takes_nothing_away(tmp_path: Path) -> None:
    ran = run(WITH_A_FORKED_CHILD_THAT_EXITS, tmp_path)
    assert ran.stdout == "True True\n", ran.stderr


def test_a_broker_that_died_is_started_again_without_a_warning(tmp_path: Path) -> None:
    ran = run(STARTED_AGAIN_AFTER_A_DEATH_OF_ITS_OWN, tmp_path, "-X", "dev", "-W", "error")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_ctrl_c_does_not_reach_the_broker() -> None:
    with Broker() as broker:
        assert os.getpgid(broker.pid) != os.getpgid(0)


def test_a_closed_broker_is_not_started_again() -> None:
    with Broker() as broker:
        broker.kill()
    with pytest.raises(RuntimeError, match="closed"):
        broker.restart()
    assert not broker.log_path.parent.exists()


async def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    broker = Broker()
    starting = asyncio.ensure_future(broker.__aenter__())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not broker.running
    assert not broker.log_path.parent.exists()


@pytest.mark.parametrize("name", ["a,b", "a "])
def test_a_folder_that_log_dirs_cannot_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="commas"):
        Broker(data_dir=tmp_path / name)


def test_a_folder_may_have_spaces_and_other_letters_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "daten für = #1 \\ %s ${x}"
    with Broker(data_dir=folder):
        assert (folder / "meta.properties").exists()


KILLED = """
import os, signal
from odradek import Broker

broker = Broker({arguments}).start()
print(broker.pid, broker.data_dir, flush=True)
{before}
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_broker_of_a_process_that_gets_sigkill_removes_its_temporary_folder(tmp_path: Path) -> None:
    pid, _ = run(KILLED.format(arguments="", before=""), tmp_path).stdout.split()
    assert ends(int(pid))
    assert list(tmp_path.iterdir()) == []


def test_a_given_data_folder_outlives_a_process_that_gets_sigkill(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    pid, data = run(KILLED.format(arguments=f"data_dir={str(mine)!r}", before=""), tmp_path).stdout.split()
    assert ends(int(pid))
    assert Path(data) == mine
    assert list(tmp_path.iterdir()) == [mine]
    assert (mine / "meta.properties").is_file()


def test_what_a_killed_broker_and_its_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    run(KILLED.format(arguments="", before="broker.kill()"), tmp_path)
    (left,) = tmp_path.glob("odradek-*")
    (tmp_path / "odradek-of-mine").mkdir()
    told = run("from odradek import Broker\nprint(Broker().data_dir.parent)", tmp_path)
    assert told.returncode == 0, told.stderr
    assert not left.exists()
    assert [folder.name for folder in tmp_path.iterdir()] == ["odradek-of-mine"]


def test_folders_of_living_processes_are_left_alone(tmp_path: Path) -> None:
    two = "from odradek import Broker\nfirst = Broker()\nwith Broker(): print(first.log_path.parent.exists())"
    assert run(two, tmp_path).stdout == "True\n"


def test_systemd_is_told_when_it_serves_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        environ = {**os.environ, "NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "60000000"}
        settings = ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path / 'data'}", "odradek.http.port=-1")
        arguments = [part for setting in settings for part in ("--set", setting)]
        with subprocess.Popen([sys.executable, "-m", "odradek", "serve", *arguments], env=environ) as broker:
            try:
                first, sign_of_life = manager.recv(4096).decode(), manager.recv(4096).decode()
                broker.terminate()
                last = manager.recv(4096).decode()
                assert broker.wait(60) == 0
            finally:
                broker.kill()
    assert first.startswith("READY=1\nSTATUS=serves at 127.0.0.1:")
    assert sign_of_life == "WATCHDOG=1"
    assert last == "STOPPING=1\nSTATUS=stopping"
