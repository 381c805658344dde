"""Which observers of the metadata log are remembered, and for how long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.quorum import observers as module
from controller.quorum.observers import SESSION_MS, MetadataObservers
from tests.doubles.files import MemoryFileSystem
from tests.unit.controller.quorum.support import Process, made_root


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process(made_root(MemoryFileSystem()))
    yield made
    made.end()


@pytest.fixture
def observers(process: Process) -> MetadataObservers:
    return MetadataObservers(process.log, process.clock)


def test_an_observer_that_is_silent_for_a_session_is_forgotten(process: Process, observers: MetadataObservers) -> None:
    observers.note(7, 0)
    process.advance(SESSION_MS / 2)
    observers.note(8, 0)
    process.advance(SESSION_MS / 2)
    assert list(observers.known) == [7, 8]
    process.advance(1)
    assert list(observers.known) == [8]
    observers.note(7, 0)
    assert sorted(observers.known) == [7, 8]


def test_who_fetches_again_begins_a_new_session(process: Process, observers: MetadataObservers) -> None:
    for _ in range(3):
        observers.note(7, 0)
        process.advance(SESSION_MS - 1)
    assert list(observers.known) == [7]


def test_of_too_many_observers_the_longest_silent_go(
    observers: MetadataObservers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_KNOWN", 3)
    for node_id in (1, 2, 3, 1, 4):
        observers.note(node_id, 0)
    assert list(observers.known) == [3, 1, 4]


def test_an_observer_is_caught_up_once_it_fetches_from_the_end(process: Process, observers: MetadataObservers) -> None:
    observers.note(7, -1)
    assert observers.known[7].caught_up_ms == -1
    observers.note(7, observers.high_watermark)
    assert observers.known[7].caught_up_ms == process.clock.wall_ms()
