"""Replication under crashes, cuts and elections; each seed is another history."""

from __future__ import annotations

import os

import pytest

from tests.simulation.cluster import SimulatedCluster

SEEDS = range(int(os.environ.get("SIMULATION_FIRST_SEED", "0")), int(os.environ.get("SIMULATION_SEEDS", "12")))
FLUSHING = {"flush_messages": "1"}
STEPS = int(os.environ.get("SIMULATION_STEPS", "150"))


@pytest.mark.parametrize("seed", SEEDS)
async def test_replicas_agree_and_lose_nothing(seed: int) -> None:
    cluster = SimulatedCluster(seed, **(FLUSHING if seed % 4 == 3 else {}))
    try:
        await cluster.live(STEPS)
    except BaseException:
        print("\n".join(cluster.log))  # noqa: T201 - the history of a seed that fails
        raise
    assert cluster.seen
