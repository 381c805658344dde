"""What fuzzing has found stays mended: each target reads its seeds, its corpus, and short changes of both."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from tests.fuzzing.connections import CONNECTIONS
from tests.fuzzing.target import CORPUS, Target
from tests.fuzzing.targets import TARGETS
from tests.unit.broker.network.test_fuzzed_bytes import mutated

every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))

MOST_ALLOCATED = 4 << 20
"""Bytes, for an input of less than a few thousand that does not unpack to more."""


@every_target
def test_seeds_and_corpus(target: Target) -> None:
    for data in [*target.seeds(), *target.corpus()]:
        target.try_out(data)


@every_target
def test_seeds_are_good(target: Target) -> None:
    """A target whose seeds are all refused finds little."""
    assert any(map(target.try_out, target.seeds())) or target.name in ("sasl_scram_final", "state_manifest")


@pytest.mark.parametrize("name", sorted(TARGETS.keys() - {target.name for target in CONNECTIONS}))
def test_short_inputs_take_little_memory(name: str) -> None:
    """No length that an input says is believed before the bytes are there."""
    target = TARGETS[name]
    inputs = [*target.seeds(), *target.corpus()]
    for data in inputs:  # the first time imports modules, and makes readers
        target.try_out(data)
    tracemalloc.start()
    try:
        for data in inputs:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            target.try_out(data)
            assert tracemalloc.get_traced_memory()[1] - before < MOST_ALLOCATED, data
    finally:
        tracemalloc.stop()


@every_target
def test_changed_seeds(target: Target, request: pytest.FixtureRequest) -> None:
    chance = random.Random(target.name)
    seeds = list(target.seeds())
    for _ in range(20 * request.config.getoption("--fuzz")):
        target.try_out(mutated(chance, chance.choice(seeds)))


def test_no_corpus_is_without_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= TARGETS.keys()


def test_a_fault_in_a_node_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("broker.security.sasl.conversations.PlainConversation.evaluate", fail)
    (login, *_others) = TARGETS["frames_before_a_login"].seeds()
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        TARGETS["frames_before_a_login"].try_out(login)
