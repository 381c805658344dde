"""A suite of 150 integration tests with the kit, and the same with Apache Kafka: `python -m benchmarks.kit --help`.

Each test has a topic and a group of its own (`benchmarks/kit_suite`). With Odradek the plugin starts the broker
and cleans up; with Kafka a broker runs already, started with `group.initial.rebalance.delay.ms=0`, and the test makes
and deletes its topic. The broker's part of a test is what the fixtures take before and after it, and the CPU time of
the broker in between. Printed are medians of the tests and of the rounds, in ms unless it says otherwise.

With `--fresh` the suite has a broker of its own for each test, as a program of its own (cold) and as a fork of the
kit's template (warm); beside it one that all tests share, and, where there is Go, a new kfake of franz-go for each test
(`benchmarks/kfake`), which lives in one process. Memory is that of the last test's broker, counting a page that
several processes have as their fractions (Pss).
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders import ROOT, Contender, Odradek, arguments, contenders
from benchmarks.figures import Figures, alternating, note, print_table
from benchmarks.first_record import wait_for_first_record
from odradek import Broker

SUITE = "benchmarks/kit_suite"
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}


def main() -> None:
    parser = arguments("python -m benchmarks.kit", "A suite of integration tests")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tests", type=int, default=150)
    parser.add_argument("--fresh", action="store_true", help="a broker of its own for each test")
    options = parser.parse_args()
    if options.fresh:
        _fresh(options.rounds, options.tests)
        return
    measured = contenders(options.kafka, options.alone, SETTINGS)
    figures: Figures = {}
    for contender in alternating(measured, options.rounds):
        note(
            figures,
            contender,
            _odradek(options.tests) if isinstance(contender, Odradek) else _kafka(contender, options.tests),
        )
    print_table(figures, measured)


@dataclass
class Way:
    """A way to have brokers for the suite: its variables, and options of pytest."""

    name: str
    place: dict[str, str]
    options: tuple[str, ...] = ()


def _fresh(rounds: int, tests: int) -> None:
    ways = [Way("cold", {"KIT_FRESH": "1"}, ("--odradek-cold",)), Way("warm", {"KIT_FRESH": "1"}), Way("shared", {})]
    with tempfile.TemporaryDirectory() as folder:
        if (go := shutil.which("go")) is None:
            sys.stderr.write("no Go: without kfake\n")
        else:
            program = f"{folder}/kfake"
            subprocess.run([go, "build", "-o", program, "."], cwd=ROOT / "benchmarks" / "kfake", check=True)
            ways.append(Way("kfake", {"KIT_KFAKE": program}))
        figures: Figures = {}
        for way in alternating(ways, rounds):
            note(figures, way, _suite(tests, way.place, *way.options))
        print_table(figures, ways)


def _odradek(tests: int) -> dict[str, float]:
    """The plugin's fixtures start the broker, as a user's would; a start of its own is measured before."""
    began = time.monotonic()
    with Broker():
        started = time.monotonic() - began
    return {"start of the broker, s": started, **_suite(tests, {})}


def _kafka(contender: Contender, tests: int) -> dict[str, float]:
    """Its start is measured from a formatted folder to the first record."""
    contender.prepare()
    try:
        began = time.monotonic()
        contender.start()
        wait_for_first_record(contender.port)
        started = time.monotonic() - began
        place = {"KIT_BOOTSTRAP": f"127.0.0.1:{contender.port}", "KIT_PID": str(contender.pid())}
        return {"start of the broker, s": started, **_suite(tests, place)}
    finally:
        contender.stop()


def _suite(tests: int, place: dict[str, str], *options: str) -> dict[str, float]:
    """Run the suite in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        variables = {**os.environ, "KIT_FIGURES": str(path), "KIT_TESTS": str(tests), **place}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *options, SUITE]
        began = time.monotonic()
        run = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
        took = time.monotonic() - began
        if run.returncode:
            sys.exit(run.stdout[-5000:] + run.stderr[-2000:])
        found = json.loads(path.read_text())
    return {"the whole suite, s": took, **_per_test(found["phases"]), "broker's memory, MB": found["memory"]["mb"]}


def _per_test(phases: dict[str, list[float]]) -> dict[str, float]:
    # The first test's set-up may start the broker, which has a figure of its own.
    setup, call, teardown, broker = (
        [seconds * 1000 for seconds in phases[phase][1:]] for phase in ("setup", "call", "teardown", "broker")
    )
    fixtures = [sum(pair) for pair in zip(setup, teardown, strict=True)]
    part = [sum(pair) for pair in zip(fixtures, broker, strict=True)]
    return {
        "a test itself": statistics.median(call),
        "fixtures of a test": statistics.median(fixtures),
        "broker's CPU while a test runs": statistics.median(broker),
        "broker's part of a test": statistics.median(part),
        "broker's part, 95 of 100 tests": statistics.quantiles(part, n=20)[-1],
    }


if __name__ == "__main__":
    main()
