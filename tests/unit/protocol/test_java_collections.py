"""The order of names as Apache Kafka 4.1 was seen to give it."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from protocol.java_collections import in_java_order, in_timeline_order, timeline_slots
from protocol.java_strings import java_string_hash


def test_a_ninth_key_in_a_bucket_makes_more_of_few_buckets() -> None:
    assert in_java_order([*range(0, 128, 16), 1]) == [*range(0, 128, 16), 1]
    assert in_java_order([*range(0, 144, 16), 1]) == [0, 32, 64, 96, 128, 1, 16, 48, 80, 112]


def test_topic_ids_stand_by_kafkas_hash_code() -> None:
    """As a HashSet<org.apache.kafka.common.Uuid> of these was seen to stand."""
    ids = [UUID(int=3 << 96), UUID(int=2 << 64), UUID(int=1 << 32), UUID(int=0), UUID(int=1 << 127), UUID(int=16)]
    assert in_java_order(ids) == [ids[3], ids[4], ids[5], ids[2], ids[1], ids[0]]


class Timeline:
    """Kafka's BaseHashTable, which a TimelineHashMap is: chains in the slots of a table that doubles."""

    def __init__(self) -> None:
        self.chains: list[list[str]] = [[], []]

    def put(self, key: str) -> None:
        if (sum(map(len, self.chains)) + 1) * 0.75 > len(self.chains):
            before = self.chains
            self.chains = [[] for _ in range(2 * len(before))]
            for chain in before:
                for earlier in chain:
                    self.chain(earlier).append(earlier)
        if key not in self.chain(key):
            self.chain(key).append(key)

    def chain(self, key: str) -> list[str]:
        log2_size = len(self.chains).bit_length()
        return self.chains[(java_string_hash(key) * -7046029254386353131 % (1 << 64)) >> (65 - log2_size)]

    def order(self) -> list[str]:
        return [key for chain in self.chains for key in reversed(chain)]


@given(st.lists(st.integers(0, 60).map(lambda number: f"member {number}"), max_size=80))
def test_the_order_of_a_timeline_hash_map(puts: list[str]) -> None:
    table, slots, keys = Timeline(), 2, dict[str, None]()
    for key in puts:
        table.put(key)
        slots = timeline_slots(slots, len(keys))
        keys[key] = None
    assert in_timeline_order(list(keys), slots) == table.order()
