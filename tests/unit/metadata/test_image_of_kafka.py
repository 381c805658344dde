"""Random records make the images that Kafka's own MetadataDelta makes of them: every field, every epoch.

`python -m tools.recorders.image_answers` asks Kafka's classes anew (image_answers.jsonl), and compares many more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from metadata.delta import MetadataDelta
from metadata.image import EMPTY
from protocol.metadata.serde import API_KEYS, record_class
from tests.unit.metadata.kafka_images import State, decoded, key_of, our_state, state_of

ANSWERS = [json.loads(line) for line in (Path(__file__).parent / "image_answers.jsonl").read_text().splitlines()]


def logs() -> list[list[dict[str, Any]]]:
    """The deltas of each log: those that follow one with an empty image before it."""
    found: list[list[dict[str, Any]]] = []
    for line in ANSWERS:
        if line["new"]:
            found.append([])
        found[-1].append(line)
    return found


@pytest.mark.parametrize("log", logs())
def test_every_record_changes_the_image_as_in_kafka(log: list[dict[str, Any]]) -> None:
    image, kafkas = EMPTY, State()
    for line in log:
        records = decoded(line["records"])
        delta = MetadataDelta(image)
        delta.replay_all(records)
        image = delta.apply(image.offset + len(records), 1, 0)
        for record in decoded(line["gone"]):
            del kafkas[key_of(record)]
        kafkas |= state_of(decoded(line["put"]))
        assert our_state(image) == kafkas, records


def test_records_of_every_kind_that_an_image_takes_were_replayed() -> None:
    replayed = {record.__class__.__name__ for line in ANSWERS for record in decoded(line["records"])}
    of_transactions = {"BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"}
    of_zookeeper = {"ZkMigrationStateRecord"}
    assert replayed == {record_class(key).__name__ for key in API_KEYS} - of_transactions - of_zookeeper
