"""A suite of 150 integration tests with the kit, and the same with Apache Kafka: `python -m benchmarks.kit --help`.

Each test has a topic and a group of its own (`benchmarks/kit_suite`). With Odradek the plugin starts the broker
and cleans up; with Kafka a broker runs already, started with `group.initial.rebalance.delay.ms=0`, and the test makes
and deletes its topic. The broker's part of a test is what the fixtures take before and after it, and the CPU time of
the broker in between. Printed are medians of the tests and of the rounds, in ms unless it says otherwise.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.contenders import ROOT, Contender, Kafka, Odradek, arguments, contenders, serving
from benchmarks.figures import Figures, alternating, note, print_table
from odradek import Broker

SUITE = "benchmarks/kit_suite"
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}


def main() -> None:
    parser = arguments("python -m benchmarks.kit", "A suite of integration tests")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tests", type=int, default=150)
    options = parser.parse_args()
    measured = contenders(options.kafka, options.alone, SETTINGS)
    figures: Figures = {}
    for contender in alternating(measured, options.rounds):
        if isinstance(contender, Odradek):
            note(figures, contender, {**_start(), **_suite(options.tests, None)})
        else:
            with serving(contender):
                note(figures, contender, _suite(options.tests, f"127.0.0.1:{contender.port}"))
    _print(figures, measured)


def _start() -> dict[str, float]:
    began = time.monotonic()
    with Broker():
        return {"start of the broker, s": time.monotonic() - began}


def _suite(tests: int, bootstrap: str | None) -> dict[str, float]:
    """Run the suite in a process of its own; `bootstrap` is a broker that runs, or the plugin starts one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        own = {"KIT_FIGURES": str(path), "KIT_TESTS": str(tests), **({"KIT_BOOTSTRAP": bootstrap} if bootstrap else {})}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", SUITE]
        began = time.monotonic()
        run = subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, check=False)
        took = time.monotonic() - began
        if run.returncode:
            sys.exit(run.stdout[-5000:] + run.stderr[-2000:])
        found = json.loads(path.read_text())
    return {"the whole suite, s": took, **_per_test(found)}


def _per_test(found: dict[str, Any]) -> dict[str, float]:
    # The first test's set-up starts the broker, which has a figure of its own.
    setup, call, teardown, broker = (
        [seconds * 1000 for seconds in found["phases"][phase][1:]] for phase in ("setup", "call", "teardown", "broker")
    )
    fixtures = [sum(pair) for pair in zip(setup, teardown, strict=True)]
    per_test = {"fixtures of a test": statistics.median(fixtures), "a test itself": statistics.median(call)}
    if broker:
        part = [sum(pair) for pair in zip(fixtures, broker, strict=True)]
        per_test["broker's CPU while a test runs"] = statistics.median(broker)
        per_test["broker's part of a test"] = statistics.median(part)
        per_test["broker's part, 95 of 100 tests"] = statistics.quantiles(part, n=20)[-1]
        per_test["broker's memory, MB"] = found["memory"]["rss_mb"]
    return per_test


def _print(figures: Figures, measured: list[Contender]) -> None:
    shared = {name: by for name, by in figures.items() if len(by) == len(measured)}
    print_table(shared, measured)
    alone = [contender for contender in measured if not isinstance(contender, Kafka)]
    print_table({name: by for name, by in figures.items() if name not in shared}, alone)


if __name__ == "__main__":
    main()
