"""Where Apache Kafka 4.1 was seen to put groups."""

from __future__ import annotations

import tracemalloc

import pytest

from coordinator.runtime.runtime import partition_for


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("", 0),
        ("oh-grp", 27),
        ("ohh-plain", 46),
        ("ohh-grüße", 7),
        ("ohh-😀", 43),
        ("ohh-日本語", 37),
        ("ohh-\uffff", 19),
        ("ohh-" + "z" * 200, 40),
        ("polygenelubricants", 0),  # hashes to -2^31, which has no absolute value
    ],
)
def test_the_partition_of_a_group_is_kafkas(group: str, partition: int) -> None:
    assert partition_for(group, 50) == partition


def test_long_keys_are_not_remembered() -> None:
    tracemalloc.start()
    try:
        for number in range(100):
            partition_for(f"{number}" + "z" * 300, 50)
        assert tracemalloc.get_traced_memory()[0] < 15_000
    finally:
        tracemalloc.stop()
