"""Shortages of room and descriptors: one line when they begin, one a minute, one at the end."""

from __future__ import annotations

import errno

import structlog
from structlog.testing import capture_logs

from storage.shortages import QUIET_MS, REPEAT_MS, Shortages
from tests.doubles.clock import ManualClock

FULL = OSError(errno.ENOSPC, "full")


def test_a_shortage_is_logged_when_it_begins_each_minute_and_when_it_is_over() -> None:
    clock = ManualClock()
    shortages = Shortages(clock.monotonic_ms)
    structlog.reset_defaults()  # storage tests are quiet otherwise
    with capture_logs() as lines:
        for _ in range(100):
            shortages.note("/data", FULL)
        clock.advance(REPEAT_MS)
        shortages.note("/data", FULL)
        (found,) = shortages.all()
        shortages.over(found)
        shortages.over(found)
    assert [(line["log_level"], line["event"]) for line in lines] == [
        ("error", "out of resources"),
        ("error", "still out of resources"),
        ("warning", "resources are back"),
    ]
    assert (lines[1]["failures"], lines[2]["seconds"]) == (101, 60.0)
    assert shortages.all() == []


def test_places_and_causes_are_told_apart_and_other_errors_are_none() -> None:
    shortages = Shortages(ManualClock().monotonic_ms)
    for place, number in (("/one", errno.ENOSPC), ("/two", errno.EDQUOT), ("/two", errno.EMFILE), ("/two", errno.EIO)):
        shortages.note(place, OSError(number, "failed"))
    assert sorted(map(str, shortages.all())) == [
        "/one: no room is left on the device",
        "/two: the disk quota is used up",
        "/two: too many files are open",
    ]


def test_a_shortage_is_quiet_when_nothing_has_failed_for_a_while() -> None:
    clock = ManualClock()
    shortages = Shortages(clock.monotonic_ms)
    shortages.note("/data", FULL)
    clock.advance(QUIET_MS - 1)
    assert shortages.quiet() == []
    clock.advance(1)
    assert [one.place for one in shortages.quiet()] == ["/data"]
    shortages.note("/data", FULL)
    assert shortages.quiet() == []
