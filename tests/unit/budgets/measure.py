"""Measures a scene, a start, and instructions, and says where they differ from the table."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from odradek import location
from tests.unit.budgets.meters import ROOT, Boundaries, Meter, MeteredRig, Walk, Walks
from tests.unit.budgets.scenes import Round, Scene

TABLE: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("budgets.toml").read_text())
WARM_ROUNDS = 10
"""What a first request imports, generates and sizes is there after these."""
WALKS = 3
KEPT_ROUNDS = 50
COUNTED_ROUNDS = 3
"""Rounds under valgrind, of which the cheapest counts."""
PACKAGES = ("broker", "controller", "coordinator", "metadata", "odradek", "protocol", "storage", "timing")
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Costs:
    """Of a scene: the walk of each request by its row in the table, and what `KEPT_ROUNDS` rounds left.

    That is memory blocks, and by their type objects in circles, which only a garbage collection frees.
    """

    walks: Mapping[str, Walk]
    kept: int
    circles: Mapping[str, int]


async def costs(scene: Scene) -> Costs:
    """Measure in a node in memory. Garbage in circles does not count as kept blocks.

    Of `WALKS` walks the shortest counts: other work of the loop may fall into one.
    """
    write_no_log()
    async with scene() as (rig, once):
        for _ in range(WARM_ROUNDS):
            await once()
        rounds = [await _walks(rig, once) for _ in range(WALKS)]
        rig.meter = Meter()
        await once()
        before = _blocks()
        with circles() as in_circles:
            for _ in range(KEPT_ROUNDS):
                await once()
        shortest = {name: min((walks[name] for walks in rounds), key=_calls) for name in rounds[0]}
        return Costs(shortest, _blocks() - before, in_circles)


@contextmanager
def circles() -> Iterator[Counter[str]]:
    """Counts the objects that are made meanwhile and only a garbage collection frees, by type."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(type(each).__qualname__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def _walks(rig: MeteredRig, once: Round) -> Mapping[str, Walk]:
    rig.meter = walks = Walks()
    await once()
    return walks.by_name


def _calls(walk: Walk) -> int:
    return walk.calls.total()


def write_no_log() -> None:
    """Leave log lines out of the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def imported_by_a_start(folder: Path, *settings: str) -> list[str]:
    """The modules that a broker has imported when it says that it serves, in order, as Python tells them."""
    read_end, write_end = os.pipe()
    python, *launched = location.command(["serve", "--ready-fd", str(write_end)])
    command = [python, "-X", "importtime", *launched]
    for setting in ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={folder}", *settings):
        command += ["--set", setting]
    log = folder.parent / "log"
    with log.open("wb") as lines, subprocess.Popen(command, pass_fds=(write_end,), stderr=lines, cwd=ROOT) as process:
        os.close(write_end)
        with os.fdopen(read_end, "rb") as ready:
            assert b'"ready": true' in ready.readline(), log.read_text()
        found = re.findall(r"^import time:.*\| +([\w.]+)$", log.read_text(), re.MULTILINE)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    return found


def ours(modules: Sequence[str]) -> list[str]:
    return [name for name in modules if name.partition(".")[0] in PACKAGES]


def instructions() -> dict[str, int]:
    """Count the processor's instructions for each request with callgrind, whose dumps at getppid(2) are the bounds."""
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "-q", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={folder}/out"]
        subprocess.run(
            [*valgrind, sys.executable, "-m", "tests.unit.budgets", "scenes", f"{folder}/names"],
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        names = Path(folder, "names").read_text().splitlines()
        found: dict[str, int] = {}
        for number, name in enumerate(names):
            # The first dump is what came before the first request, the second that request, the third the gap after it.
            text = Path(folder, f"out.{2 * number + 2}").read_text()
            (total,) = re.findall(r"^totals: (\d+)", text, re.MULTILINE)
            found[name] = min(int(total), found.get(name, sys.maxsize))
        return found


async def play(scene: Scene) -> list[str]:
    """Play a scene for valgrind; returns the names of the requests, in order."""
    write_no_log()
    async with scene() as (rig, once):
        for _ in range(WARM_ROUNDS):
            await once()
        rig.meter = boundaries = Boundaries()
        for _ in range(COUNTED_ROUNDS):
            await once()
        rig.meter = Meter()
        return boundaries.names
