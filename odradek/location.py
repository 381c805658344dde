"""Where the node's packages are, and the command that runs them in a process of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

DEPENDENCIES = "ODRADEK_DEPENDENCIES"
"""The environment variable with more folders, after its own, in which a broker's process looks for its dependencies."""

LAUNCHER = "launcher.py"


class NotInstalledError(RuntimeError):
    """The node's packages cannot be run from where `odradek` is."""


def launcher() -> Path:
    """The script that runs the node. Raises NotInstalledError if `odradek` lies in an archive."""
    script = Path(__file__).with_name(LAUNCHER)
    if not script.is_file():
        raise NotInstalledError(
            f"odradek was imported from {script.parent}, which is no folder: a broker's process cannot run from inside "
            "an archive. Install odradek (pip install /path/to/odradek), or name a Python that has it: "
            'Broker(python="/path/to/python")'
        )
    return script


def command(arguments: Sequence[str], python: str | os.PathLike[str] | None = None) -> list[str]:
    """The command of a broker's process, isolated (-I) from the user's folders; `python` is another environment's."""
    if python is not None:
        return [os.fspath(python), "-I", "-m", "odradek", *arguments]
    return [sys.executable, "-I", str(launcher()), *arguments]


def environment(base: dict[str, str]) -> dict[str, str]:
    """The environment of that process: an isolated Python ignores PYTHONPATH and `pip install --user`."""
    here = [os.path.abspath(folder) for folder in sys.path if folder and os.path.isdir(folder)]
    return {**base, DEPENDENCIES: os.pathsep.join(here)}
