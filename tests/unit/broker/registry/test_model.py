"""The registry beside a small model: random calls, kill -9 in between, and a second node that reads the topic."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pytest

from tests.doubles.files import Unsynced
from tests.unit.broker.registry.model import Call, Model, all_reads, forget_the_last, new_schema, random_call, seen
from tests.unit.broker.registry.rig import Asking
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control

CALLS, LIVES = 60, 3
SEEDS, MORE_SEEDS = 5, 100
COMPACTED = {"cleanup_policy": "compact"}
FLUSHED = {"log.flush.interval.messages": "1"}
"""So that nothing that was answered is lost even if the machine fails."""


async def lived(seed: int) -> tuple[Rig, Model]:
    """A node after so many calls and crashes, each call answered as the model does; and the model."""
    chance, model = random.Random(seed), Model()
    rig = Rig(config=FLUSHED)
    await rig.start()
    for life in range(LIVES):
        if life:
            rig = await begun_again(rig, chance)
            await require_same(Asking(rig), model)
        asking = Asking(rig)
        for _ in range(CALLS):
            await require_answer(asking, model, random_call(chance, model))
        for call in forget_the_last(model):
            await require_answer(asking, model, call)
    return rig, model


async def begun_again(rig: Rig, chance: random.Random) -> Rig:
    """The node after a restart, a kill or the failure of its machine."""
    if chance.random() < 0.7:
        return await rig.crash(chance.choice(list(Unsynced)))
    await rig.stop()
    again = Rig(fs=rig.fs, clock=rig.clock, config=FLUSHED)
    await again.start()
    return again


async def require_answer(asking: Asking, model: Model, call: Call) -> None:
    answer = await asking.answer(*call.request)
    assert seen(call, answer.status, answer.value) == model.answer(call), call


async def require_same(asking: Asking, model: Model) -> None:
    for call in all_reads(model):
        await require_answer(asking, model, call)


async def records_of(rig: Rig) -> list[dict[str, Any]]:
    """The records of the registry's topic, as the control interface takes and gives them."""
    found: list[dict[str, Any]] = []
    while True:
        start = found[-1]["offset"] + 1 if found else 0
        answer = await control(rig, "GET", "/topics/_schemas/records", **{"from": f"0:{start}"})
        found += answer["records"]
        if not answer["more"]:
            return found


def compacted(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What compaction leaves of them: of each key the last."""
    last = {record["key"]: record for record in records}
    return [record for record in records if last[record["key"]] is record]


@pytest.mark.parametrize(
    "seed", [*range(SEEDS), *(pytest.param(seed, marks=pytest.mark.torture) for seed in range(SEEDS, MORE_SEEDS))]
)
async def test_random_calls_are_answered_as_by_the_model_also_after_kill_9_and_by_a_second_node(seed: int) -> None:
    rig, model = await lived(seed)
    await require_same(Asking(rig), model)
    records = await records_of(rig)
    await rig.stop()
    assert model.highest > 5
    for copied in (records, compacted(records)):
        async with Rig() as second:
            await second.create("_schemas", 1, **COMPACTED)
            fields = [{name: record.get(name) for name in ("key", "value")} for record in copied]
            await control(second, "POST", "/topics/_schemas/records", records=fields)
            await require_same(Asking(second), model)
            await require_answer(Asking(second), deepcopy(model), new_schema(model))
