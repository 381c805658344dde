"""Blocks of producer ids: none overlaps another."""

from __future__ import annotations

from controller.producer_ids import BLOCK_SIZE, decide
from metadata.image import EMPTY
from protocol.metadata.topics import ProducerIdsRecord
from tests.unit.controller.images import after


def test_each_block_begins_where_the_last_one_ended() -> None:
    image, blocks = EMPTY, []
    for broker_id in (1, 2, 1):
        decision = decide(image, broker_id, 5)
        blocks.append(decision.response)
        image = after(image, decision)
    assert blocks == [range(start, start + BLOCK_SIZE) for start in (0, BLOCK_SIZE, 2 * BLOCK_SIZE)]
    assert image.next_producer_id == 3 * BLOCK_SIZE


def test_the_record_says_who_has_the_block_and_where_the_next_one_begins() -> None:
    assert decide(EMPTY, 7, 42).records == [
        ProducerIdsRecord(broker_id=7, broker_epoch=42, next_producer_id=BLOCK_SIZE)
    ]
