"""Hashes of topics and of groups, held to what Kafka 4.1's hash4j gave and to a record that Kafka wrote."""

from __future__ import annotations

from uuid import UUID

import pytest

from coordinator.group.modern.topics import TopicImage, group_hash, topic_hash

ORDERS = UUID("ffffffff-ffff-ffff-8000-000000000000")


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (TopicImage("t", UUID(int=1 << 64 | 2), [[]]), 677983168519007417),
        (TopicImage("", UUID(int=0), []), 6868502005073071843),
        (TopicImage("orders", ORDERS, [["a", "b"], [], ["rack-é", "z😀"]]), 1313925666787028387),
        (
            TopicImage("x" * 249, UUID("01234567-89ab-cdef-fedc-ba9876543210"), [[f"r{i % 3}"] for i in range(200)]),
            -4469115685927894035,
        ),
    ],
    ids=["one partition", "nothing", "racks", "more than XXH3 takes at once"],
)
def test_the_hash_of_a_topic_is_kafkas(image: TopicImage, expected: int) -> None:
    assert topic_hash(image) == expected


def test_the_hash_in_a_record_that_kafka_wrote() -> None:
    """That of tests/unit/protocol/coordinator_records/data/kafka_4_1_consumer_group.txt."""
    images = (
        TopicImage("k848r-fa2b1a-b", UUID("6f13dc86-d772-4ba6-996c-127635f3e21e"), [[], []]),
        TopicImage("k848r-fa2b1a-a", UUID("c264c343-a5c0-452c-8410-3611f0a30abe"), [[], [], []]),
    )
    assert group_hash({image.name: topic_hash(image) for image in images}) == -5209809033812852204


def test_the_hash_of_a_group_is_kafkas() -> None:
    assert group_hash({"b": 7, "a": -3, "B": -(1 << 63)}) == 5728250569933914622
    assert group_hash({"one": 0}) == -4072596861322023719
    assert group_hash({}) == 0
