"""The order in which Kafka tells of names that a request gives more than once."""

from __future__ import annotations

import pytest

from broker.metadata.topic_names import repeated

SAME_BUCKET = ("h107-t1", "h107-comp")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), []),
        (("a", "b"), []),
        (("b", "a", "b", "a", "b"), ["a", "b"]),
        ((*SAME_BUCKET, "h107-t2", *SAME_BUCKET, "h107-t2"), ["h107-t2", "h107-t1", "h107-comp"]),
        ((*SAME_BUCKET, "h107-t2", "h107-t2", *reversed(SAME_BUCKET)), ["h107-t2", "h107-comp", "h107-t1"]),
    ],
)
def test_names_stand_by_bucket_and_within_one_as_they_came_again(given: tuple[str, ...], told: list[str]) -> None:
    assert repeated(given) == told  # as Kafka 4.1 told them
