"""pip with a bar: `python tools/install.py -r FILE [pip's options]`, for the Makefile. Needs nothing but Python.

pip is silent with `-q`, for minutes where wheels are built; without it there are hundreds of lines. This counts pip's
lines against the requirements in the file: a bar on a terminal, else a line for each tenth. If pip fails, all that it
said follows, and its exit status is this one's.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

WIDTH = 30
_REQUIREMENT = re.compile(r"^[A-Za-z0-9][\w.\[\]-]* *==", re.MULTILINE)
_FOUND = re.compile(r"\s*(?:Collecting|Requirement already satisfied:) ([\w.-]+)")
_STEP = re.compile(r"\s*(Building wheel|Preparing metadata|Installing collected packages)(?: for ([\w.-]+))?")


class Bar:
    """How far pip is, of `total` packages."""

    def __init__(self, name: str, total: int, terminal: bool) -> None:
        self._name, self._total, self._terminal = name, max(total, 1), terminal
        self._done, self._told = 0, 0

    def see(self, line: str) -> None:
        """The next line of pip's."""
        if found := _FOUND.match(line):
            self._done += 1
            self._tell(found[1])
        elif found := _STEP.match(line):
            self._tell(" ".join(part for part in (found[1].lower(), found[2]) if part))

    def _tell(self, what: str) -> None:
        share = min(self._done / self._total, 1.0)
        text = f"{self._name} {min(self._done, self._total)}/{self._total}"
        if self._terminal:
            filled = int(WIDTH * share)
            self._write(f"\r\x1b[2K[{'#' * filled}{'.' * (WIDTH - filled)}] {text} {what}"[:110])
        elif int(10 * share) > self._told or what.startswith("installing"):
            self._told = int(10 * share)
            self._write(f"{text} {what}\n")

    def end(self) -> None:
        if self._terminal:
            self._write("\r\x1b[2K")

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Install, and return pip's exit status."""
    file = Path(arguments[arguments.index("-r") + 1])
    bar = Bar(file.stem, len(_REQUIREMENT.findall(file.read_text())), sys.stderr.isatty())
    command = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off"]
    said: list[str] = []
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            bar.see(line)
    bar.end()
    if process.returncode:
        sys.stderr.writelines(said)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
