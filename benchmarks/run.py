"""Odradek beside Apache Kafka on this machine in one run: `python -m benchmarks.run --help`.

Cold starts alternate first. Then both brokers stay up; each gets one pass that is not counted, and the counted passes
alternate, so that whatever else the machine does affects both. It prints medians; the JSON file has every figure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.contenders import ROOT, Contender, arguments, contenders, serving
from benchmarks.figures import Figures, alternating, note, print_table
from benchmarks.first_record import wait_for_first_record
from benchmarks.measures import Pass, Sizes

SETTLE_SECONDS = 2.0
AMOUNTS = {"rounds": (5, 2), "bulk": (300_000, 100_000), "singles": (50_000, 15_000), "paced": (2_000, 1_000)}
"""What is done by default, and with --quick."""


def main() -> None:
    options = _options()
    sizes = Sizes(options.bulk, options.singles, options.paced)
    load_before = os.getloadavg()[0]
    measured = contenders(options.kafka, options.alone)
    figures: Figures = {}
    for contender in alternating(measured, options.rounds):
        note(figures, contender, _cold_start(contender))
    with contextlib.ExitStack() as running:
        for contender in measured:
            running.enter_context(serving(contender))
            _say(f"{contender.name}: warming up")
            _pass(contender, sizes)
        for contender in alternating(measured, options.rounds):
            note(figures, contender, _pass(contender, sizes))
    print_table(figures, measured)
    machine = {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load": [load_before, os.getloadavg()[0]],
    }
    report = {"machine": machine, "sizes": asdict(sizes), "rounds": options.rounds, "figures": figures}
    target = Path(options.json)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=2) + "\n")
    _say(f"load of the machine: {load_before:.1f} before, {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} cores")
    _say(f"every figure: {target}")


def _options() -> argparse.Namespace:
    parser = arguments("make bench", "Odradek beside Apache Kafka")
    parser.add_argument("--quick", action="store_true", help="two rounds of a third of the work, in two minutes")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--bulk", type=int, help="records of 1 KB for the MB/s, a multiple of 1,000")
    parser.add_argument("--singles", type=int, help="single-record requests")
    parser.add_argument("--paced", type=int, help="records, one a millisecond, for the latency")
    parser.add_argument("--json", default=str(ROOT / "build" / "bench.json"))
    options = parser.parse_args()
    for name, (full, quick) in AMOUNTS.items():
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else full)
    return options


def _pass(contender: Contender, sizes: Sizes) -> dict[str, float]:
    return Pass(f"127.0.0.1:{contender.port}", [contender.pid()], sizes).run()


def _cold_start(contender: Contender) -> dict[str, float]:
    """Start a new process on a formatted, empty folder; for Odradek, formatting is part of the measured time."""
    contender.prepare()
    try:
        began = time.perf_counter()
        contender.start()
        wait_for_first_record(contender.port)
        took = time.perf_counter() - began
        time.sleep(SETTLE_SECONDS)
        status = Path(f"/proc/{contender.pid()}/status").read_text()
    finally:
        contender.stop()
    (resident,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return {"start to first acknowledged record s": took, "idle resident MB": resident * 1024 / 1e6}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
