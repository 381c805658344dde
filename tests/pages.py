"""The documentation as a reader uses it: the blocks of its pages, and a shell in an empty folder for them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

from tests.command_line import NO_CONTEXTS
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
ODRADEK = f'odradek() {{ {shlex.quote(sys.executable)} -m odradek "$@"; }}\n'
SECONDS = 120


def blocks(page: str, language: str = "") -> list[str]:
    """The blocks of a page that name this language, in their order."""
    return [dedent(code) for _, named, code in BLOCK.findall((ROOT / page).read_text()) if named == language]


def block(page: str, words: str, language: str = "") -> str:
    """The only block of the page that has these words."""
    (found,) = [code for code in blocks(page, language) if words in code]
    return found


class Shell:
    """A reader's shell. Where a page prints what is not to be had here (a port, a folder), `instead` has what is."""

    def __init__(self, folder: Path, instead: Mapping[str, object]) -> None:
        self.folder = folder
        self._instead = instead
        self._environment = {**os.environ, **NO_CONTEXTS, "PYTHONPATH": str(ROOT)}

    def text(self, printed: str) -> str:
        """What the page prints, for here."""
        for there, here in self._instead.items():
            printed = printed.replace(there, str(here))
        return printed

    def write(self, name: str, printed: str) -> None:
        """A file that the page prints."""
        (self.folder / name).write_text(self.text(printed))

    def run(self, printed: str) -> str:
        """Run the lines, all of which must succeed; what they print."""
        done = subprocess.run(
            ["sh", "-e", "-c", ODRADEK + self.text(printed)],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{printed}{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, printed: str) -> Iterator[None]:
        """While the command `odradek serve ...` runs and serves; SIGTERM ends it with status 0."""
        variables, _, arguments = self.text(printed).partition("odradek ")
        ready, log = self.folder / "ready", self.folder / "serve.log"
        ready.unlink(missing_ok=True)
        with log.open("w") as said:
            process = subprocess.Popen(
                [
                    "env",
                    *shlex.split(variables),
                    sys.executable,
                    "-m",
                    "odradek",
                    *shlex.split(arguments),
                    "--ready-file",
                    ready,
                ],
                cwd=self.folder,
                env=self._environment,
                stdout=said,
                stderr=said,
            )
            try:
                wait_until(lambda: _is_written(ready) or process.poll() is not None, f"{printed} does not serve")
                assert process.poll() is None, log.read_text()
                yield
                process.terminate()
                process.wait(SECONDS)
            finally:
                process.kill()
        assert process.returncode == 0, log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()


def _is_written(ready: Path) -> bool:
    return ready.exists() and ready.read_text().endswith("\n")
