"""The metadata store's life on a disk that fails at times: every change is there or not, whole, and ids are new."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import hypothesis.strategies as st
from broker.metadata.entries import CorruptMetadataError
from broker.metadata.local_store import LocalMetadataStore
from broker.metadata.producer_ids import ProducerIds
from broker.metadata.store import MetadataStoreError
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protocol.errors import CoordinatorLoadInProgress
from tests.doubles.clock import settle
from tests.doubles.files import Unsynced
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.doubles.workers import LaneWorkers

KEYS = st.sampled_from(["/a", "/b", "/c"])
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=60), min_size=1, max_size=3)
CHANCES = st.sampled_from([0.1, 0.3, 1.0])
T = TypeVar("T")
State = dict[str, bytes]


class MetadataMachine(RuleBasedStateMachine):
    """`possible`: what the store may hold: all that was answered, and none, one or more of what was not, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.fs = FlakyFileSystem()
        self.fs.mkdir("/data")
        self.fs.fsync_dir("/")
        self.possible: list[State] = [{}]
        self.asked: list[tuple[asyncio.Task[int], State]] = []
        self.ids: set[int] = set()
        self.rng = random.Random(0)
        assert self.start()

    def teardown(self) -> None:
        self.forget_the_process()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def start(self) -> bool:
        """Unless the disk keeps it from that."""
        self.workers = LaneWorkers()
        opening = self.loop.create_task(
            LocalMetadataStore.open(self.fs, "/data", self.workers, snapshot_after_bytes=300)
        )
        self.work(1000)
        try:
            self.store = opening.result()
        except (OSError, CorruptMetadataError):
            assert self.fs.chance
            return False
        self.store.on_failure = lambda _: None
        self.producer_ids = ProducerIds(self.store)
        found = self.held()
        assert found in self.possible, (found, self.possible)
        self.possible = [found]
        return True

    def held(self) -> State:
        return {key: one.value for key, one in self.run(self.store.list("/")).items() if key in ("/a", "/b", "/c")}

    # -- what is asked of it

    @rule(changes=CHANGES)
    def commit(self, changes: dict[str, bytes | None]) -> None:
        puts = {key: value for key, value in changes.items() if value is not None}
        deletes = [key for key, value in changes.items() if value is None]
        before = self.asked[-1][1] if self.asked else self.possible[-1]
        after = {**{key: value for key, value in before.items() if key not in deletes}, **puts}
        self.asked.append((self.loop.create_task(self.store.commit({}, puts, deletes)), after))
        self.possible.append(after)
        self.run(settle())

    @rule(count=st.integers(1, 1500))
    def take_ids(self, count: int) -> None:
        async def take() -> None:
            for _ in range(count):
                taken = self.producer_ids.take()
                assert taken not in self.ids
                self.ids.add(taken)

        with suppress(CoordinatorLoadInProgress):
            self.run(take())
        self.run(settle())

    @rule(count=st.sampled_from([1, 1, 2, 5, 100]))
    def work(self, count: int) -> None:
        for _ in range(count):
            self.run(settle())
            if not self.workers.run_any(self.rng):
                break
        self.run(settle())

    # -- what happens to it

    @rule(trouble=st.sampled_from(Trouble), chance=CHANCES, seed=st.integers(0, 1000))
    def disk(self, trouble: Trouble, chance: float, seed: int) -> None:
        self.fs.get_into(trouble, chance, seed)

    @rule(unsynced=st.sampled_from([None, *Unsynced]), seed=st.integers(0, 1000))
    def ends(self, unsynced: Unsynced | None, seed: int) -> None:
        """kill -9, or the power fails; the next start has a disk that works."""
        self.forget_the_process()
        if unsynced is not None:
            self.fs.crash(unsynced, seed)
        self.fs.chance = 0.0
        assert self.start()

    @rule(
        trouble=st.sampled_from(Trouble),
        chance=CHANCES,
        seed=st.integers(0, 1000),
        unsynced=st.sampled_from([None, *Unsynced]),
    )
    def starts_in_trouble(self, trouble: Trouble, chance: float, seed: int, unsynced: Unsynced | None) -> None:
        self.forget_the_process()
        if unsynced is not None:
            self.fs.crash(unsynced, seed)
        self.fs.get_into(trouble, chance, seed)
        if not self.start():
            self.ends(unsynced, seed)

    @rule()
    def stops(self) -> None:
        closing = self.loop.create_task(self.store.close())
        self.work(1000)
        assert closing.done()
        self.look_at_answers()
        self.ends(None, 0)

    def forget_the_process(self) -> None:
        self.look_at_answers()
        self.fs = self.fs.copy()
        self.fs.forget_failed_syncs()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.run(settle())
        self.asked.clear()

    # -- what holds

    @invariant()
    def look_at_answers(self) -> None:
        """What was refused for want of room is not there, nor what was asked after it; other errors leave it open."""
        for number, (task, after) in enumerate(self.asked):
            if not task.done():
                break
            if task.exception() is None:
                self.possible = [after, *(one for _, one in self.asked[number + 1 :])]
                continue
            assert isinstance(task.exception(), MetadataStoreError)
            if "no room" in str(task.exception()):
                assert all(one.done() and one.exception() for one, _ in self.asked[number:])
                self.possible = self.possible[:1]
                self.asked.clear()
                break
        while self.asked and self.asked[0][0].done() and self.asked[0][0].exception() is None:
            del self.asked[0]

    @invariant()
    def what_it_shows_is_durable(self) -> None:
        assert self.held() == self.possible[0]


MetadataMachine.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMetadata = MetadataMachine.TestCase
