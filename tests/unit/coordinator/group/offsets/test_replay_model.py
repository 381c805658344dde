"""Random work on offsets, held to a small model; and what the log says is what the live state was."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.group.offsets.store import OffsetStore
from tests.unit.coordinator.group.offsets.rig import OffsetRig, offset

GROUPS = st.sampled_from(["a", "b"])
TOPICS = st.sampled_from(["t", "u"])
PARTITIONS = st.integers(0, 2)
PRODUCERS = st.integers(1, 2)
PLACES = st.tuples(TOPICS, PARTITIONS)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), GROUPS, PLACES),
        st.tuples(st.just("pend"), GROUPS, PLACES, PRODUCERS),
        st.tuples(st.just("end"), PRODUCERS, st.booleans()),
        st.tuples(st.just("delete"), GROUPS, PLACES),
        st.tuples(st.just("delete group"), GROUPS),
        st.tuples(st.just("delete topic"), TOPICS),
        st.tuples(st.just("restart")),
    ),
    max_size=30,
)


class Model:
    """Every commit with its number, which grows as record offsets do."""

    def __init__(self) -> None:
        self.number = 0
        self.committed: dict[tuple[str, str, int], int] = {}
        self.pending: dict[tuple[int, str, str, int], int] = {}

    def forget(self, matches: Any) -> None:
        self.committed = {key: number for key, number in self.committed.items() if not matches(*key)}
        self.pending = {key: number for key, number in self.pending.items() if not matches(*key[1:])}

    def end(self, producer: int, committed: bool) -> None:
        for key, number in list(self.pending.items()):
            if key[0] == producer:
                del self.pending[key]
                if committed:
                    self.committed[key[1:]] = max(number, self.committed.get(key[1:], -1))

    def of(self, group: str) -> dict[tuple[str, int], int]:
        return {(topic, index): number for (one, topic, index), number in self.committed.items() if one == group}


async def work(steps: list[tuple[Any, ...]]) -> None:
    rig = await OffsetRig.started()
    model = Model()
    for step in steps:
        model.number += 1
        match step:
            case ("commit", group, (topic, index)):
                rig.commit(offset(index, model.number, topic), group=group)
                model.committed[group, topic, index] = model.number
            case ("pend", group, (topic, index), producer):
                rig.commit_in_transaction(producer, offset(index, model.number, topic), group=group)
                model.pending[producer, group, topic, index] = model.number
            case ("end", producer, committed):
                rig.end(producer, committed=committed)
                model.end(producer, committed)
            case ("delete", group, (topic, index)) if group in rig.group_ids():
                rig.delete({topic: [index]}, group)
                model.forget(lambda *key, gone=(group, topic, index): key == gone)
            case ("delete group", group):
                rig.delete_groups(group)
                model.forget(lambda one, _topic, _index, gone=group: one == gone)
            case ("delete topic", topic):
                rig.topic_deleted(topic)
                model.forget(lambda _group, one, _index, gone=topic: one == gone)
            case ("restart",):
                await rig.restart()
        for group in ("a", "b"):
            assert rig.committed(group) == model.of(group)
            pending = {(topic, index) for _, one, topic, index in model.pending if one == group}
            asked = [(topic, index) for topic in ("t", "u") for index in range(3)]
            assert set(rig.fetch(group, asked, stable=True).unstable) == pending
            assert rig.shard.offsets.store.has_open_transactions(group) is bool(pending)
    await assert_the_log_says_the_same(rig)


async def assert_the_log_says_the_same(rig: OffsetRig) -> None:
    live = rig.shard.offsets.store
    groups = rig.group_ids()
    await rig.restart()
    assert rig.shard.offsets.store is not live
    assert contents(rig.shard.offsets.store) == contents(live)
    assert rig.group_ids() == groups


def contents(store: OffsetStore) -> dict[str, Any]:
    """With the order of everything, which clients see."""
    return {name: in_order(value) for name, value in vars(store).items() if value}


def in_order(value: Any) -> Any:
    return [(key, in_order(one)) for key, one in value.items()] if isinstance(value, dict) else value


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_replaying_the_log_gives_the_state_that_was(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(work(steps))
