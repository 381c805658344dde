"""Delegation tokens as decisions: what no request of a client can show."""

from __future__ import annotations

from controller.decision import MOST_RECORDS
from controller.delegation_tokens import decide_sweep
from protocol.metadata.credentials import DelegationTokenRecord
from tests.unit.controller.images import after, image_of


def test_more_expired_tokens_than_one_decision_may_remove_are_removed_by_several() -> None:
    many = MOST_RECORDS + 1
    image = image_of(*(token(str(number)) for number in range(many)))
    first = decide_sweep(image, now_ms=100)
    assert first.response == len(first.records) == MOST_RECORDS
    left = after(image, first)
    assert (len(left.tokens), decide_sweep(left, now_ms=100).response) == (1, 1)


def token(token_id: str) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=(),
        issue_timestamp=0,
        max_timestamp=50,
        expiration_timestamp=50,
        token_id=token_id,
    )
