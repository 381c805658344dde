"""Replication under crashes, cuts and elections; each seed is another cluster and another history of it.

`python -m tests.simulation` has many more of them.
"""

from __future__ import annotations

import pytest

from tests.simulation.cluster import SimulatedCluster

SEEDS = range(8)
FAILED_ONCE = [(15, 150), (36, 150), (56, 150), (1108, 300), (2387, 400)]
"""Seeds and steps of lives without transactions in which something was wrong.

15, 36, 56: records that were deleted came back with a crash, the leader epochs that went with them did not.
1108: a replica that had been removed and came back without records was still eligible as leader.
2387: a follower whose log ended within a batch of which the leader had deleted the first records never went on.
"""
STEPS = 200


async def live(seed: int, steps: int = STEPS, *, unclean: bool = False, transactions: bool = True) -> SimulatedCluster:
    cluster = SimulatedCluster(seed, unclean=unclean, transactions=transactions)
    try:
        await cluster.live(steps)
    except BaseException:
        print("\n".join(cluster.history))  # noqa: T201 - the history of a seed that fails
        raise
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
async def test_replicas_agree_and_lose_nothing(seed: int) -> None:
    cluster = await live(seed)
    assert cluster.invariants.seen


@pytest.mark.parametrize(("seed", "steps"), FAILED_ONCE)
async def test_lives_in_which_something_was_wrong(seed: int, steps: int) -> None:
    await live(seed, steps, transactions=False)


async def test_records_that_a_crash_brings_back_are_those_of_the_leader() -> None:
    """A follower kept what its leader had deleted, though it was of another leader; a crash brought it back."""
    await live(5351, 300)


@pytest.mark.parametrize("seed", SEEDS)
async def test_replicas_agree_after_unclean_elections(seed: int) -> None:
    await live(seed, unclean=True)
