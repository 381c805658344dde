"""What clients used lately and whose quota holds for them: the rules alone."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from broker.quotas.limits import INACTIVE_MS, QuotaClient, QuotaLimits, Sensors
from metadata.settings import QuotaKey
from timing.rate import LONGEST_MS, Rate, TokenBucket, Windows

RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("kafka_rates.json").read_text())
START_MS = 1_000_000
WINDOWS = Windows(11, 1000)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: f"{one['kind']} {one['num']}x{one['size_ms']}")
def test_throttle_times_are_those_of_kafkas_classes(recorded: dict[str, Any]) -> None:
    windows, quota = Windows(recorded["num"], recorded["size_ms"]), recorded["quota"]
    rate, bucket = Rate(windows), TokenBucket(windows)
    for at_ms, value, taken_back, expected_ms in recorded["steps"]:
        now_ms = START_MS + at_ms
        if recorded["kind"] == "rate":
            rate.record(value, now_ms)
            throttle_ms = rate.throttle_ms(quota, now_ms)
            if taken_back:
                rate.record(-value, now_ms)
        else:
            throttle_ms = bucket.throttle_ms(quota, now_ms)
            if not throttle_ms:
                bucket.take(value, quota, now_ms)
        assert throttle_ms == expected_ms, at_ms


@pytest.mark.parametrize(
    ("quota", "throttle_ms"), [(float("nan"), 0), (float("inf"), 0), (1e-9, LONGEST_MS), (0, LONGEST_MS)]
)
def test_odd_quotas(quota: float, throttle_ms: int) -> None:
    rate = Rate(WINDOWS)
    rate.record(1e6, 5)
    assert rate.throttle_ms(quota, 5) == throttle_ms


BOTH, USER, CLIENT = QuotaClient("u", "c"), QuotaClient("u", ""), QuotaClient("", "c")
LEVELS: tuple[tuple[QuotaKey, QuotaClient], ...] = (
    ((("user", "u"), ("client-id", "c")), BOTH),
    ((("user", "u"), ("client-id", None)), BOTH),
    ((("user", "u"),), USER),
    ((("user", None), ("client-id", "c")), BOTH),
    ((("user", None), ("client-id", None)), BOTH),
    ((("user", None),), USER),
    ((("client-id", "c"),), CLIENT),
    ((("client-id", None),), CLIENT),
)
"""In Kafka's order of precedence."""


def test_the_first_quota_level_that_is_set_counts() -> None:
    for chosen in product((False, True), repeat=len(LEVELS)):
        limits = QuotaLimits()
        limits.put((("user", "other"), ("client-id", "c")), 99)
        limits.put((("user", "other"),), 99)
        expected = None
        for number, ((entity, tags), is_set) in enumerate(zip(LEVELS, chosen, strict=True)):
            if is_set:
                limits.put(entity, number)
                expected = expected or (tags, number)
        assert limits.of("u", "c") == expected


def test_a_client_without_an_id_has_quotas_of_its_user_alone() -> None:
    limits = QuotaLimits()
    for number, (entity, _) in enumerate(LEVELS):
        limits.put(entity, number)
    assert limits.of("u", "") == (USER, 2)
    limits.put((("user", "u"),), None)
    assert limits.of("u", "") == (USER, 5)
    limits.put((("user", None),), None)
    assert limits.of("u", "") is None


@pytest.mark.parametrize("key", [(("client-id", "c"), ("user", "u")), (("user", "u"), ("client-id", "c"))])
def test_the_order_of_the_parts_of_a_key_does_not_matter(key: QuotaKey) -> None:
    limits = QuotaLimits()
    limits.put(key, 7)
    assert limits.of("u", "c") == (BOTH, 7)
    limits.put(key[::-1], None)
    assert limits.of("u", "c") is None


def test_sensors_that_nobody_uses_are_dropped() -> None:
    made: list[int] = []
    sensors: Sensors[str, int] = Sensors(lambda: made.append(len(made)) or len(made))  # type: ignore[func-returns-value]
    assert [sensors.use("a", 0), sensors.use("b", 0), sensors.use("a", 10)] == [1, 2, 1]
    assert dict(sensors.items(INACTIVE_MS)) == {"b": 2, "a": 1}
    assert dict(sensors.items(INACTIVE_MS + 1)) == {"a": 1}
    assert sensors.use("b", INACTIVE_MS + 11) == 3
    assert dict(sensors.items(INACTIVE_MS + 11)) == {"b": 3}


def test_no_more_sensors_are_kept_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with a new id in each request takes no memory for each; those used last are kept."""
    monkeypatch.setattr("broker.quotas.limits.MOST", 3)
    sensors: Sensors[str, object] = Sensors(object)
    kept = sensors.use("kept", 0)
    for number in range(100):
        sensors.use(f"new-{number}", number)
        assert sensors.use("kept", number) is kept
    assert [key for key, _ in sensors.items(100)] == ["new-98", "new-99", "kept"]
