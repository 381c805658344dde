"""The order of names as Apache Kafka 4.1 was seen to give it."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.java_collections import (
    in_concatenated_order,
    in_grown_timeline_order,
    in_hash_order,
    in_immutable_groups,
    in_java_copy_order,
    in_java_order,
    in_scala_groups,
    in_timeline_order,
    in_trie_order,
    scala_set,
    timeline_slots,
)
from protocol.java_strings import java_string_hash

OFFSETS = "__consumer_offsets"


@pytest.mark.parametrize(
    "shown",
    [
        "Set(node.id, num.partitions, broker.rack, log.dirs)",
        "HashSet(num.partitions, log.dirs, node.id, broker.rack, log.dir)",
        "HashSet(listener.name.a.b, listeners, ssl.cipher.suites, ssl.protocol, ssl.provider, sasl.jaas.config)",
    ],
)
def test_a_scala_set(shown: str) -> None:
    names = shown.partition("(")[2].removesuffix(")").split(", ")
    assert scala_set(in_java_order(names)) == shown
    assert shown.startswith("Set") or scala_set(names[::-1]) == shown


def test_names_with_the_same_hash_share_a_place_in_the_order_in_which_they_came() -> None:
    assert java_string_hash("Aa") == java_string_hash("BB")
    for names in (["Aa", "BB"], ["BB", "Aa"]):
        assert in_trie_order(names) == names
        assert [name for name, _ in in_scala_groups([(name, 0) for name in names])] == names


def test_names_of_one_bucket_stand_by_hash_in_scala_and_as_they_came_in_java() -> None:
    first, second = "remote.log.manager.fetch.max.bytes.per.second", "remote.log.storage.system.enable"
    assert in_hash_order([first, second]) == in_hash_order([second, first])
    assert in_java_order([first, second]) == [first, second]
    assert in_java_order([second, first]) == [second, first]


def test_a_copy_has_room_for_a_quarter_more() -> None:
    assert in_java_order([*range(10), 18, 16]) == [0, 16, *range(1, 3), 18, *range(3, 10)]
    assert in_java_copy_order([*range(10), 18, 16]) == [*range(10), 16, 18]


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


def test_partitions_grouped_by_topic_stand_as_in_an_answer_to_list_offsets() -> None:
    asked = {
        **dict.fromkeys(("t4", index) for index in range(14)),
        **dict.fromkeys(("nope", index) for index in range(3)),
        **dict.fromkeys(("other.topic", index) for index in (3, 2, 1, 0)),
        ("a-b-c", 0): None,
        **dict.fromkeys(("日本", index) for index in (7, 6, 5)),
    }
    assert in_scala_groups(asked) == [
        ("a-b-c", [0]),
        ("t4", [1, 0, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2]),
        ("日本", [7, 6, 5]),
        ("other.topic", [2, 1, 0, 3]),
        ("nope", [0, 1, 2]),
    ]


@given(st.lists(st.integers(0, 60).map(lambda number: f"topic {number}"), unique=True, max_size=60))
def test_a_timeline_hash_map_out_of_which_nothing_was_taken(puts: list[str]) -> None:
    table = Timeline()
    for key in puts:
        table.put(key)
    assert in_grown_timeline_order(puts) == table.order()


@pytest.mark.parametrize(
    "kafkas",
    [
        [(OFFSETS, [24, 21]), ("tt92361-3", [3, 5]), ("tt92361-2", [0])],
        [(OFFSETS, [23, 29]), ("tt92361-2", [3])],
        [("tt92361-0", [5]), (OFFSETS, [25, 49])],
        [(OFFSETS, [17, 18]), ("f88038-4", [1, 0])],
        [(OFFSETS, [7, 6]), ("f88038-5", [1])],
    ],
)
def test_a_transactions_partitions_stand_as_in_the_set_that_its_last_addition_made(
    kafkas: list[tuple[str, list[int]]],
) -> None:
    """As DescribeTransactions of Apache Kafka 4.1 answers: topics by their first partition."""
    partitions = [(topic, index) for topic, indexes in kafkas for index in indexes]
    found: dict[str, list[int]] = {}
    for topic, index in in_concatenated_order(sorted(partitions), len(partitions)):
        found.setdefault(topic, []).append(index)
    assert list(found.items()) == kafkas


def test_partitions_that_are_left_stand_where_they_stood_among_all() -> None:
    left = [(OFFSETS, 25), ("tt92361-0", 5)]
    assert in_concatenated_order(left, 3) == [("tt92361-0", 5), (OFFSETS, 25)]
    assert in_concatenated_order(left, 6) == [(OFFSETS, 25), ("tt92361-0", 5)]


def test_partitions_that_are_all_unknown_stand_as_in_an_answer_to_delete_records() -> None:
    asked = [*(("zz", index) for index in (0, 5, 1, 33, 7)), ("q", 3), ("q", 2), ("<d>", 0), ("<d>", 5)]
    assert in_immutable_groups(asked) == [("<d>", [0, 5]), ("q", [2, 3]), ("zz", [1, 5, 33, 7, 0])]
