"""Fuzz targets by atheris, the first fault ends it: `python -m tests.fuzzing [TARGET ...] --seconds 60`.

What reaches new code is added to the target's corpus, if it is short. An input that shows a fault is left in
`build/fuzz/TARGET`: once the fault is mended, move it to the corpus.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import click

from tests.fuzzing.target import CORPUS, Target
from tests.fuzzing.targets import TARGETS

LONGEST, LONGEST_KEPT = 4096, 512
"""Bytes of an input, and of one that is kept."""
MOST_KEPT = 40
"""Inputs of one target: the corpus is played in every run of the tests."""
BUILD = Path(__file__).parents[2] / "build" / "fuzz"
LIMITS = (f"-max_len={LONGEST}", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1")


def fuzz(target: Target, seconds: int) -> int:
    """The exit status of libFuzzer, which ends its process."""
    folder = BUILD / target.name
    found = folder / "found"
    found.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate([*target.seeds(), *target.corpus()]):
        (found / f"seed-{number}").write_bytes(seed)
    return _run(target, f"-max_total_time={seconds}", f"-artifact_prefix={folder}/", str(found))


def keep(target: Target) -> None:
    """The fewest of the found inputs that reach all that was reached, as long as they are short and few."""
    found, merged = BUILD / target.name / "found", BUILD / target.name / "merged"
    merged.mkdir(exist_ok=True)
    _run(target, "-merge=1", str(merged), str(found))
    folder = CORPUS / target.name
    folder.mkdir(parents=True, exist_ok=True)
    seeds = set(target.seeds())
    short = sorted(
        (path for path in merged.iterdir() if path.stat().st_size <= LONGEST_KEPT), key=lambda path: path.name
    )
    for path in short[: max(0, MOST_KEPT - len(list(folder.iterdir())))]:
        if path.read_bytes() not in seeds:
            (folder / path.name[:16]).write_bytes(path.read_bytes())


def _run(target: Target, *arguments: str) -> int:
    script = BUILD / target.name / "run.sh"  # which libFuzzer starts by itself to merge
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tests.fuzzing.one {target.name} "$0" "$@"\n')
    script.chmod(0o755)
    return subprocess.run([str(script), *LIMITS, *arguments], check=False).returncode


@click.command()
@click.argument("names", nargs=-1, metavar="[TARGET ...]")
@click.option("--seconds", default=60, show_default=True, help="For each target.")
def main(names: tuple[str, ...], seconds: int) -> None:
    """Fuzz the targets, all of them if none is named."""
    if unknown := sorted(set(names) - TARGETS.keys()):
        raise click.BadParameter(f"{', '.join(unknown)}: expected some of {', '.join(TARGETS)}")
    for name in names or TARGETS:
        if status := fuzz(TARGETS[name], seconds):
            raise click.ClickException(f"{name}: a fault, by the input in {BUILD / name} (status {status})")
        keep(TARGETS[name])


if __name__ == "__main__":
    main()
