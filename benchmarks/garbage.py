"""How long Python's garbage collector holds up a node while topics are made: `python -m benchmarks.garbage`.

CPU time of the collections, in a node in memory, with `broker.process.Survivors` or by Python's own rules.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections import defaultdict

from broker.process import Survivors
from tests.unit.broker.rig import Rig
from tests.unit.budgets.measure import write_no_log


class CpuTimes:
    """The CPU time of each collection, in ms, by its generation."""

    def __init__(self) -> None:
        self.found: dict[int, list[float]] = defaultdict(list)
        self._since_s = 0.0

    def collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._since_s = time.thread_time()
        else:
            self.found[info["generation"]].append((time.thread_time() - self._since_s) * 1e3)


async def measure(topics: int, exempt: bool) -> CpuTimes:
    times, survivors = CpuTimes(), Survivors()
    async with Rig() as rig:
        await rig.create("first")
        gc.collect()
        if exempt:
            survivors.exempt()
        else:
            gc.freeze()
        gc.callbacks.append(times.collection)
        for number in range(topics):
            await rig.create(f"topic-{number:05}")
        gc.callbacks.clear()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--rules-of-python", action="store_true", help="without Survivors")
    asked = parser.parse_args()
    write_no_log()
    found = asyncio.run(measure(asked.topics, exempt=not asked.rules_of_python)).found
    for generation, times in sorted(found.items()):
        print(f"generation {generation}: {len(times)} collections, {sum(times):.0f} ms, longest {max(times):.1f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
