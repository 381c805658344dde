"""UUIDs as bytes and as Kafka's text."""

from __future__ import annotations

import base64
import random
from uuid import UUID

import pytest

from protocol import uuids


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (uuids.ZERO, "AAAAAAAAAAAAAAAAAAAAAA"),
        (UUID(int=1), "AAAAAAAAAAAAAAAAAAAAAQ"),
        (UUID(int=2**128 - 1), "_____________________w"),
    ],
)
def test_text_is_url_safe_base64_without_padding(value: UUID, text: str) -> None:
    assert uuids.to_text(value) == text
    assert uuids.from_text(text) == uuids.from_text(f"{text}==") == value
    assert uuids.from_bytes(value.bytes) == value


@pytest.mark.parametrize("text", ["", "abc", "A" * 23, "A" * 40, "!" * 4 + "A" * 22, "+" + "A" * 21, "A" * 22 + "="])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        uuids.from_text(text)


def test_random_ids_differ_and_never_start_with_a_dash() -> None:
    rng = random.Random(3)
    ids = {uuids.random_uuid(rng) for _ in range(2000)}
    assert len(ids) == 2000
    assert not [each for each in ids if base64.urlsafe_b64encode(each.bytes).startswith(b"-")]
    assert {each.version for each in ids} == {4}
