"""`odradek` as a command, for tests."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

NO_CONTEXTS = {"ODRADEK_CONTEXTS": os.devnull + ".none"}


class Odradek:
    """Runs commands on the cluster at `bootstrap`."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(
        self, *arguments: str, stdin: str = "", at: str | None = None, environment: Mapping[str, str] = NO_CONTEXTS
    ) -> tuple[int, str, str]:
        """Exit status, output and errors; `at` empty leaves -b out."""
        where = ("-b", self.bootstrap) if at is None else ()
        ran = subprocess.run(
            [sys.executable, "-m", "odradek", *arguments, *where],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **environment},
        )
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran.returncode, ran.stdout, ran.stderr

    def told(self, *arguments: str, **more: Any) -> str:
        """The output of a command that must succeed."""
        status, out, error = self.run(*arguments, **more)
        assert status == 0, out + error
        return out

    def json(self, *arguments: str) -> Any:
        """The document that a command prints with --json."""
        return json.loads(self.told(*arguments, "--json"))


def on_a_terminal(*arguments: str, environment: Mapping[str, str] = NO_CONTEXTS) -> bytes:
    """All that a terminal is sent of output and errors; it writes line feeds as it is told, with a carriage return."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "odradek", *arguments]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", **environment}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        sent = bytearray()
        with os.fdopen(ours, "rb", 0) as terminal:
            try:
                while part := terminal.read(1 << 16):
                    sent += part
            except OSError:  # EIO: nobody has the other end any more
                pass
        process.wait(60)
    return bytes(sent).replace(b"\r\n", b"\n")
