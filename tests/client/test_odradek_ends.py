"""How a user's broker ends: never before its process does, and never after."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
