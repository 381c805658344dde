"""Charts of the console: axes, units, a time range; and what is kept for them, which is bounded."""

from __future__ import annotations

import itertools
import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.console import formats, history
from broker.console.charts import HEIGHT, WIDTH, Frame, chart
from broker.console.history import COARSE_MS, MOST_COARSE, MOST_LAGS, SAMPLE_MS, History, Lags
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.test_messages import append, orders
from tests.unit.broker.members import CONFIG, ClassicMember
from tests.unit.broker.rig import Rig

MINUTE_MS = 60_000
NOON_MS = 1_700_006_400_000
"""2023-11-15 00:00:00."""

FRAME = Frame("30m", NOON_MS, 30 * MINUTE_MS)


def test_a_chart_has_round_numbers_with_units_and_times() -> None:
    points = [(NOON_MS - 20 * MINUTE_MS, 0.0), (NOON_MS - 20 * MINUTE_MS + 5000, 1_234_567.0), (NOON_MS, 2_000.0)]
    shown = chart("Bytes in, per second", points, formats.size, FRAME, SAMPLE_MS)
    assert shown.scale == ["2.0 MB", "1.0 MB", "0 B"]
    assert shown.times == ["23:30", "23:45", "00:00"]
    assert (shown.now, shown.most) == ("2.0 kB", "1.2 MB")
    assert len(shown.lines) == 2, "nothing was noted for twenty minutes"
    assert shown.lines[0].startswith(f"{WIDTH / 3:.1f},{HEIGHT:.1f} ")


def test_a_chart_without_values_has_axes_all_the_same() -> None:
    shown = chart("Requests", [], formats.count, FRAME, SAMPLE_MS)
    assert (shown.now, shown.scale, shown.lines) == ("–", ["", "", "0"], [])
    assert chart("Requests", [(NOON_MS, 0.0)], formats.count, FRAME, SAMPLE_MS).now == "0"


@given(st.lists(st.tuples(st.integers(-40 * MINUTE_MS, MINUTE_MS), st.floats(0, 1e15)), max_size=30))
def test_every_point_of_the_range_is_in_the_box(offsets: list[tuple[int, float]]) -> None:
    points = sorted((NOON_MS + at, value) for at, value in offsets)
    shown = chart("x", points, formats.count, FRAME, SAMPLE_MS)
    places = [tuple(map(float, place.split(","))) for line in shown.lines for place in line.split()]
    assert all(0 <= x <= WIDTH + 1 and 0 <= y <= HEIGHT for x, y in places)
    assert len(places) >= sum(-30 * MINUTE_MS <= at <= 0 for at, _ in offsets)


async def test_the_overview_has_a_day_in_minutes_and_half_an_hour_in_seconds() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        kept = History(rig.node)
        for _ in range(50):
            rig.node.local.metrics.produced("orders", messages=500, size=5000)
            await kept.sample()
            rig.clock.advance(SAMPLE_MS)
        assert [round(one.messages_in) for one in kept.rates(coarse=True)] == [100, 100]
        async with browsing(rig, kept) as browser:
            for name, length in (("5m", 5), ("30m", 30), ("24h", 1440)):
                page = await browser.get(f"/?range={name}&sort=api")
                label = next(one["aria-label"] for one in page.all("svg"))
                assert label is not None
                times = re.search(r"from (\d\d):(\d\d)[:\d]* to (\d\d):(\d\d)[:\d]* UTC: now 100, at most 100", label)
                assert times is not None, label
                begin, end = (60 * int(hour) + int(minute) for hour, minute in (times.group(1, 2), times.group(3, 4)))
                assert (end - begin) % 1440 == length % 1440
                assert "./?range=5m&sort=api" in page.links()
            assert "expected one of 30m, 5m, 24h" in (await browser.get("/?range=1y", 400)).text


async def test_a_topic_shows_its_rates_from_the_first_look_on_and_costs_nothing_before() -> None:
    async with Rig() as rig:
        for name in ("orders", "other"):
            await rig.create(name)
        kept = History(rig.node)
        await kept.sample()
        async with browsing(rig, kept) as browser:
            await browser.get("/topic?name=orders")
            rig.node.local.metrics.produced("orders", messages=500, size=5000)
            rig.node.local.metrics.produced("other", messages=1, size=1)
            rig.clock.advance(SAMPLE_MS)
            await kept.sample()
            page = await browser.get("/topic?name=orders&range=5m")
        assert "Messages in, per second 100" in page.text
        assert "Bytes in, per second 1.0 kB" in page.text
        assert list(kept._topics) == ["orders"]


async def test_only_so_many_topics_are_noted_and_none_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_TOPICS", 2)
    async with Rig() as rig:
        kept = History(rig.node)
        for name in ("a", "b", "c"):
            await rig.create(name)
            kept.topic(name)
        assert list(kept._topics) == ["b", "c"]
        await rig.connect().ask("delete_topics", 5, topic_names=("b",), timeout=timedelta(seconds=1))
        await kept.sample()
        assert list(kept._topics) == ["c"]


def test_lags_are_kept_for_half_an_hour_and_their_highest_for_a_day() -> None:
    lags, numbers = Lags(), itertools.count()
    for at_ms in range(0, 2 * MOST_COARSE * COARSE_MS, 60_000):
        lags.add(at_ms, {("t", 0): next(numbers) % 2, ("t", 1): 1})
    assert len(lags.total) == len(lags.at_ms) == len(lags.partitions[("t", 1)]) == MOST_LAGS
    assert len(lags.coarse) == len(lags.coarse_at_ms) == MOST_COARSE
    assert set(lags.coarse) == {2}


async def test_the_lag_of_a_group_has_a_range_too() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        append(rig, "t", *orders(42))
        await ClassicMember(rig, "mail", "t").enter({"t": [0, 1]})
        kept = History(rig.node)
        await kept.sample_lags()
        async with browsing(rig, kept) as browser:
            page = await browser.get("/group?id=mail&range=5m")
            day = await browser.get("/group?id=mail&range=24h")
        assert page.text.count("Lag, all partitions 42") == day.text.count("Lag, all partitions 42") == 1
        assert [one["aria-label"].split(",")[0] for one in page.all("svg")] == ["Lag", "t-0", "t-1"]
        assert len(day.all("svg")) == 1
