"""A node imports the test kit's side of itself only for the control interface, the console or an explain request."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PATIENCE_SECONDS = 60


def imported_by_a_start(folder: Path, *settings: str) -> set[str]:
    """The modules that a broker has imported when it has served and was stopped, as Python tells them."""
    read_end, write_end = os.pipe()
    command = [sys.executable, "-X", "importtime", "-m", "broker", "serve", "--ready-fd", str(write_end)]
    for setting in ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={folder}", "odradek.http.port=0", *settings):
        command += ["--set", setting]
    log = folder.parent / "log"
    with log.open("wb") as lines, subprocess.Popen(command, pass_fds=(write_end,), stderr=lines, cwd=ROOT) as process:
        os.close(write_end)
        with os.fdopen(read_end, "rb") as ready:
            assert json.loads(ready.readline())["ready"] is True
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    return set(re.findall(r"^import time:.*\| +(broker[.\w]*)$", log.read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (("odradek.console=false",), set()),
        (("odradek.console=true",), {"broker.testkit.inspection", "broker.console.history"}),
        (("odradek.console=false", "odradek.control=127.0.0.1:0"), {"broker.testkit.journal"}),
    ],
)
def test_a_start_imports_of_test_kit_and_console_what_is_switched_on(
    tmp_path: Path, settings: tuple[str, ...], expected: set[str]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    imported = imported_by_a_start(folder, *settings)
    assert "broker.node" in imported
    ours = {name for name in imported if name.startswith(("broker.testkit", "broker.console"))}
    assert expected <= ours if expected else not ours
