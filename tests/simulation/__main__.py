"""Lives of simulated clusters, seed after seed: `python -m tests.simulation --minutes 60 --first 1000`.

Prints each seed that fails with its history; the exit status is 1 if there was one.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import time
import traceback

import structlog

from tests.simulation.cluster import SimulatedCluster
from tests.simulation.whole_cluster import WholeCluster

LIMIT_SECONDS = 600
"""Of one life."""


async def live(cluster: SimulatedCluster | WholeCluster, steps: int) -> None:
    if isinstance(cluster, SimulatedCluster):
        await cluster.live(steps)
        return
    async with cluster:
        await cluster.live(steps)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=sys.maxsize, help="how many, if the time is enough")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--steps", type=int, default=300, help="of each life")
    parser.add_argument("--unclean", action="store_true", help="unclean elections are allowed: records may be lost")
    parser.add_argument("--log", action="store_true", help="print what the nodes log")
    parser.add_argument("--whole", action="store_true", help="whole nodes, with coordinators: 60 steps are many")
    asked = parser.parse_args()
    if sys.flags.hash_randomization:  # else a seed would have several lives, by the order of sets
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    if not asked.log:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    deadline = time.monotonic() + 60 * asked.minutes
    failed: list[int] = []
    seed = asked.first
    while seed < asked.first + asked.seeds and time.monotonic() < deadline:
        cluster = WholeCluster(seed) if asked.whole else SimulatedCluster(seed, unclean=asked.unclean)
        try:
            asyncio.run(asyncio.wait_for(live(cluster, asked.steps), LIMIT_SECONDS))
        except Exception:  # noqa: BLE001 - it is printed, and the next seed may be fine
            failed.append(seed)
            print(f"seed {seed}:", *cluster.history, traceback.format_exc(), sep="\n", flush=True)  # noqa: T201
        seed += 1
    print(f"seeds {asked.first} to {seed - 1}, failed: {failed or 'none'}", flush=True)  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
