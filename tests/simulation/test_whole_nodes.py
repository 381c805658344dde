"""Whole nodes with their coordinators through kills, stops and cuts; each seed is another history.

`python -m tests.simulation --whole` has many more of them.
"""

from __future__ import annotations

import pytest

from tests.simulation.whole_cluster import WholeCluster

SEEDS = range(3)
STEPS = 40


@pytest.mark.parametrize("seed", SEEDS)
async def test_transactions_are_whole_or_nothing_and_groups_lose_no_offset(seed: int) -> None:
    cluster = WholeCluster(seed)
    try:
        async with cluster:
            await cluster.live(STEPS)
    except BaseException:
        print("\n".join(cluster.history))  # noqa: T201 - the history of a seed that fails
        raise
