"""Offset indexes whose last entries are in order, so that a clean start trusts them, and whose entries mislead."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from itertools import pairwise

import pytest

from storage import damage
from storage.append_types import LogConfig
from storage.files import read_file, write_file_atomically
from storage.log.time_lookup import first_at_or_after
from storage.log.unified_log import UnifiedLog
from tests.unit.storage.support import NOW, Rig, append, batch, contents

INDEX = "/data/t-0/00000000000000000000.index"
BATCHES = 30
ENTRY = struct.Struct(">II")


def stopped() -> Rig:
    """A log of batches of two records, each with an entry in the index, after a clean stop."""
    rig = Rig(config=LogConfig(index_interval_bytes=1))
    log = rig.log()
    for number in range(BATCHES):
        append(log, batch(b"a%d" % number, b"b", timestamp=NOW + 10 * number))
    rig.manager.close()
    return rig


def entries(rig: Rig) -> list[tuple[int, int]]:
    return list(ENTRY.iter_unpack(read_file(rig.fs, INDEX)))


def start_with(rig: Rig, wrong: Sequence[tuple[int, int]]) -> UnifiedLog:
    write_file_atomically(rig.fs, INDEX, b"".join(ENTRY.pack(*entry) for entry in wrong))
    return rig.reopen()


def misleading() -> dict[str, list[tuple[int, int]]]:
    good = entries(stopped())
    last = good[-1][1]
    return {
        "behind the first batch": [(0, last), *good[-2:]],
        "into the middle of a batch": [(offset, position + 7) for offset, position in good[:-2]] + good[-2:],
        "to the end of the file": [(0, last + 60), *good[-2:]],
        "past the end of the file": [(1, 1 << 31), *good[-2:]],
        "one batch too far": [(offset, following) for (offset, _), (_, following) in pairwise(good)],
    }


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The damaged files that were logged."""
    paths: list[str] = []
    monkeypatch.setattr(damage, "repaired", lambda path, *_, **__: paths.append(path))
    return paths


@pytest.mark.parametrize("how", misleading())
def test_every_record_is_found_all_the_same(how: str, said: list[str]) -> None:
    rig = stopped()
    before = contents(Rig(rig.files.copy()).log())
    log = start_with(rig, misleading()[how])
    assert contents(log) == before
    for number in range(BATCHES):
        for offset in (2 * number, 2 * number + 1):
            assert log.locate(offset).position == sum(map(len, before[:number]))
    assert said == [INDEX]


@pytest.mark.parametrize("how", misleading())
async def test_times_are_found_all_the_same(how: str) -> None:
    rig = stopped()
    log = start_with(rig, misleading()[how])
    for number in range(BATCHES):
        found = await first_at_or_after(log, NOW + 10 * number)
        assert found is not None
        assert found.offset == 2 * number


@pytest.mark.parametrize("how", misleading())
def test_a_truncation_keeps_what_is_before_it(how: str) -> None:
    rig = stopped()
    before = contents(Rig(rig.files.copy()).log())
    log = start_with(rig, misleading()[how])
    log.segments.active.truncate_to(2 * BATCHES - 9, NOW)
    assert log.segments.active.size == sum(map(len, before[: BATCHES - 5]))


def test_a_good_index_says_nothing(said: list[str]) -> None:
    log = stopped().reopen()
    contents(log)
    for offset in random.Random(1).sample(range(2 * BATCHES), BATCHES):
        log.locate(offset)
    assert not said
