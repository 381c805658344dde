"""Runs a sample suite with the installed wheel under several Pythons: `python -m tools.plugin.pythons PYTHON...`.

For each interpreter an environment is made with the wheel of this checkout, pytest, pytest-asyncio, pytest-xdist and
anyio from the package index. The suite (`suite/`) runs with pytest-asyncio in strict and in auto mode, with anyio, and
with two workers of pytest-xdist; each warning is an error, and so is a socket or a file that is left open. pyenv's
Pythons: `python -m tools.plugin.pythons ~/.pyenv/versions/3.1[1-9]*/bin/python`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = Path(__file__).with_name("suite")
NEEDED = ("pytest", "pytest-asyncio", "pytest-xdist", "anyio", "aiokafka", "confluent-kafka")
RUNS = (("-o", "asyncio_mode=strict"), ("-o", "asyncio_mode=auto"), ("-n", "2"))


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.plugin.pythons", description="The plugin under several Pythons")
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="an interpreter, 3.11 or newer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = _build(Path(folder))
        for number, python in enumerate(options.pythons):
            own = _environment(python, Path(folder) / str(number), wheel)
            version = subprocess.check_output([own, "--version"], text=True).strip()
            for arguments in RUNS:
                _run(own, f"{version} {' '.join(arguments)}", arguments)


def _build(folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.whl"))


def _environment(python: str, folder: Path, wheel: Path) -> Path:
    subprocess.run([python, "-m", "venv", folder], check=True)
    own = folder / "bin" / "python"
    subprocess.run([own, "-m", "pip", "install", "--quiet", wheel, *NEEDED], check=True)
    return own


def _run(python: Path, title: str, arguments: tuple[str, ...]) -> None:
    command = [str(python), "-X", "dev", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, str(SUITE)]
    run = subprocess.run(command, cwd=SUITE, capture_output=True, text=True, check=False)
    sys.stdout.write(f"{title}: {run.stdout.strip().splitlines()[-1] if run.stdout.strip() else run.stderr}\n")
    if run.returncode:
        sys.exit(run.stdout + run.stderr)


if __name__ == "__main__":
    main()
