"""The partition of a key is that of Kafka's Java producer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from protocol.murmur2 import murmur2, partition_of_key


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hashes_of_kafkas_own_test(data: bytes, hashed: int) -> None:
    assert murmur2(data) == hashed & 0xFFFFFFFF


@given(st.binary(max_size=70), st.integers(1, 50))
def test_any_key_goes_where_kafka_python_sends_it(key: bytes, count: int) -> None:
    assert partition_of_key(key, count) == (kafka_python_murmur2(key) & 0x7FFFFFFF) % count
