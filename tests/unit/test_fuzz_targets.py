"""What fuzzing has found stays mended: each target reads its seeds, its corpus, and short changes of both."""

from __future__ import annotations

import random

import pytest

from tests.fuzzing.target import CORPUS, Target
from tests.fuzzing.targets import TARGETS
from tests.unit.broker.test_fuzzed_bytes import mutated

every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))


@every_target
def test_seeds_and_corpus(target: Target) -> None:
    for data in [*target.seeds(), *target.corpus()]:
        target.try_out(data)


@every_target
def test_seeds_are_good(target: Target) -> None:
    """A target whose seeds are all refused finds little."""
    assert any(map(target.try_out, target.seeds())) or target.name in ("sasl_scram_final", "state_manifest")


@every_target
def test_changed_seeds(target: Target, request: pytest.FixtureRequest) -> None:
    chance = random.Random(target.name)
    seeds = list(target.seeds())
    for _ in range(20 * request.config.getoption("--fuzz")):
        target.try_out(mutated(chance, chance.choice(seeds)))


def test_no_corpus_is_without_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= TARGETS.keys()
