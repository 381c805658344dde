"""How late the loop serves its timers while a log is compacted: `python -m benchmarks.compaction_stall --help`.

The log and the cleaner run in this process, over real files and on uvloop, and nothing else does: a timer of one
millisecond is set again and again, and its lateness noted. Rounds without and with compaction alternate, so that
whatever else the machine does affects both.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator

import uvloop

from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin, LogConfig
from storage.cleaner.log_cleaner import LogCleaner
from storage.files import OsFileSystem
from storage.folders.log_dirs import LogDirs
from storage.folders.log_manager import LogManager
from storage.log.log_services import LogServices
from storage.log.unified_log import UnifiedLog
from storage.shortages import Shortages
from storage.workers import ThreadWorkers
from timing.clock import SystemClock

CONFIG = LogConfig(segment_bytes=32 << 20, compact=True, delete=False, file_delete_delay_ms=100)
RECORDS_A_BATCH = 300
PERIOD_S = 0.001


class Probe:
    """Notes, for as long as it runs, how many milliseconds late each timer fired."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(PERIOD_S)
            self.late_ms.append((time.perf_counter() - began - PERIOD_S) * 1000)

    def stop(self) -> list[float]:
        self._task.cancel()
        return self.late_ms


def keys_of(kind: str, updates: int, round_number: int) -> Iterator[bytes]:
    """Keys by kind. `updates`: 10,000 keys in turn; `unique`: each key once; `half`: every other one of these."""
    for number in range(updates):
        unique = kind == "unique" or (kind == "half" and number % 2 == 0)
        yield b"%d-%d" % (round_number, number) if unique else b"key-%d" % (number % 10_000)


def fill(log: UnifiedLog, keys: Iterator[bytes]) -> None:
    now_ms = log.services.clock.wall_ms()
    records: list[Record] = []
    for number, key in enumerate(keys):
        records.append(Record(len(records), now_ms, key, b"value-%d" % number))
        if len(records) == RECORDS_A_BATCH:
            append(log, records)
            records = []
    log.roll()
    append(log, [Record(0, now_ms, b"last", b"record")])


def append(log: UnifiedLog, records: list[Record]) -> None:
    data = memoryview(build_batch(records))
    log.append_as_leader(data, leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=log.services.clock.wall_ms())


def told(late_ms: list[float]) -> str:
    found = sorted(late_ms)
    at = [(name, found[min(int(len(found) * share), len(found) - 1)]) for name, share in SHARES]
    return f"{len(found)} timers, " + ", ".join(f"{name} {value:.2f}" for name, value in at) + f", max {found[-1]:.1f}"


SHARES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))


async def measure(kind: str, updates: int, rounds: int, folder: str) -> None:
    loop = asyncio.get_running_loop()
    workers, clock = ThreadWorkers(loop), SystemClock(loop)
    services = LogServices(OsFileSystem(), clock, workers, random.Random(0), Shortages(clock.monotonic_ms))
    dirs = LogDirs.open(services.fs, [folder], node_id=1, new_id=uuid.uuid4, now_ms=clock.wall_ms())
    manager = LogManager.open(services, dirs, lambda _: CONFIG, new_id=uuid.uuid4)
    cleaner = LogCleaner(manager, lambda log: log.log_end_offset, lambda log: log.log_end_offset)
    idle: list[float] = []
    busy: list[float] = []
    seconds = cpu_seconds = 0.0
    for number in range(rounds):
        log = manager.plan_log("t", number, uuid.uuid4(), CONFIG, leader_epoch=0)()
        manager.adopt(log)
        fill(log, keys_of(kind, updates, number))
        log.flush()
        await asyncio.sleep(1)
        probe = Probe()
        await asyncio.sleep(2)
        idle += probe.stop()
        probe = Probe()
        began, cpu_began = time.perf_counter(), time.process_time()
        await cleaner.run_once()
        seconds += time.perf_counter() - began
        cpu_seconds += time.process_time() - cpu_began
        busy += probe.stop()
    await asyncio.sleep(0.5)  # replaced segments are removed
    manager.release()
    workers.close()
    count = updates * rounds
    sys.stdout.write(
        f"{kind}: {rounds} x {updates} records, {seconds:.1f} s, {count / seconds / 1000:.0f}k records/s, "
        f"CPU {cpu_seconds / count * 1e6:.2f} us a record\n"
        f"  ms late without compaction: {told(idle)}\n  ms late during compaction:  {told(busy)}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for kind in ("updates", "half", "unique"):
        with tempfile.TemporaryDirectory() as folder:
            uvloop.run(measure(kind, options.updates, options.rounds, folder))


if __name__ == "__main__":
    main()
