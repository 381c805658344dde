"""Where the node's packages are, and how they are run: in a process of their own, or in place of this one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

DEPENDENCIES = "ODRADEK_DEPENDENCIES"
"""The environment variable with more folders, after its own, in which a broker's process looks for its dependencies."""

LAUNCHER = "launcher.py"

NODE_COMMANDS = {
    "serve": "Run a broker, or several as one cluster.",
    "log": "Inspect or repair the files of a log.",
    "format": "Format the folders of log.dirs, as kafka-storage does.",
    "metadata": "Print the records of a metadata log.",
}
"""The commands that are the node's program's alone, and what they do."""


class NotInstalledError(RuntimeError):
    """The node's packages cannot be run from where `odradek` is."""


def launcher() -> str:
    """Find the script that runs the node. Raises NotInstalledError if `odradek` lies in an archive."""
    folder = os.path.dirname(os.path.abspath(__file__))
    script = os.path.join(folder, LAUNCHER)
    if not os.path.isfile(script):
        raise NotInstalledError(
            f"odradek was imported from {folder}, which is no folder: a broker's process cannot run from inside "
            "an archive. Install odradek (pip install /path/to/odradek), or name a Python that has it: "
            'Broker(python="/path/to/python")'
        )
    return script


def command(arguments: Sequence[str], python: str | os.PathLike[str] | None = None) -> list[str]:
    """Make the command of the node's process, isolated (-I) from the user's folders.

    `python` is another environment's.
    """
    if python is not None:
        return [os.fspath(python), "-I", "-m", "odradek", *arguments]
    return [sys.executable, "-I", launcher(), *arguments]


def environment(base: dict[str, str]) -> dict[str, str]:
    """Make the environment of that process: an isolated Python ignores PYTHONPATH and `pip install --user`."""
    here = [os.path.abspath(folder) for folder in sys.path if folder and os.path.isdir(folder)]
    return {**base, DEPENDENCIES: os.pathsep.join(here)}


def become_the_node(arguments: Sequence[str]) -> NoReturn:
    """Go on as the node's program, in this process, isolated. Raises SystemExit if it cannot be run from here."""
    try:
        program = command(arguments)
    except NotInstalledError as error:
        sys.stderr.write(f"Error: {error}\n")
        raise SystemExit(1) from error
    if sys.stdout is not None:  # a process may be started without standard descriptors
        sys.stdout.flush()
    os.execve(program[0], program, environment(dict(os.environ)))
