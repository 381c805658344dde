"""Delegation tokens as decisions: what no request of a client can show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.decision import Decision
from controller.delegation_tokens import NewToken, TokenSettings, decide_create, decide_sweep
from metadata.image import MetadataImage
from protocol.errors import PolicyViolation
from protocol.metadata.credentials import DelegationTokenRecord, RemoveDelegationTokenRecord
from tests.unit.controller.images import after, image_of

SETTINGS = TokenSettings(b"key", 1000, 100, most_of_an_owner=2, most_renewers=3)


def token(token_id: str, owner: str = "User:alice") -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=owner,
        requester=owner,
        renewers=(),
        issue_timestamp=0,
        max_timestamp=50,
        expiration_timestamp=50,
        token_id=token_id,
    )


def test_the_sweep_removes_only_those_that_are_still_there_and_expired() -> None:
    renewed = replace(token("renewed"), max_timestamp=200, expiration_timestamp=200)
    image = image_of(token("a"), token("b"), renewed)
    swept = decide_sweep(image, ["a", "gone", "renewed"], now_ms=100)
    assert swept.response == 1
    assert set(after(image, swept).tokens) == {"b", "renewed"}


def test_an_owner_has_only_so_many_tokens_at_one_time() -> None:
    image = image_of(token("a"), token("other", "User:bob"))
    image = after(image, create(image))
    with pytest.raises(PolicyViolation, match=r"User:alice has 2 delegation tokens.*odradek.delegation.token.max"):
        create(image)
    create(image_of(RemoveDelegationTokenRecord(token_id="a"), image=image))


def test_the_image_counts_tokens_by_owner_through_renewals_and_removals() -> None:
    image = image_of(token("a"), token("b"), token("c", "User:bob"))
    assert dict(image.token_counts) == {"User:alice": 2, "User:bob": 1}
    image = image_of(replace(token("a"), expiration_timestamp=60), token("c"), token("d"), image=image)
    assert dict(image.token_counts) == {"User:alice": 4}
    gone = [RemoveDelegationTokenRecord(token_id=each) for each in ("a", "b", "c", "d", "unknown")]
    assert dict(image_of(*gone, image=image).token_counts) == {}


def create(image: MetadataImage) -> Decision[DelegationTokenRecord]:
    return decide_create(image, NewToken("new", "User:alice", "User:carol", (), 0), SETTINGS, 0)
