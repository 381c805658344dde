"""The validator gives each case the answer that Apache Kafka 4.1 gave (tools/recorders/ask_kafka.py)."""

from __future__ import annotations

import json

import pytest

from protocol.errors import KafkaError
from storage.append_types import AppendOrigin, LogConfig
from storage.log.validator import validate
from tests.unit.storage.log.validator_answers import ANSWERS, describe
from tests.unit.storage.log.validator_cases import CASES, Case

NOW = 1_700_000_000_000
KAFKA = json.loads(ANSWERS.read_text())

# Python's lz4 verifies a frame's content checksum, which Kafka ignores; a consumer that verifies it could not read it.
STRICTER = {
    "lz4 with wrong content checksum": -1,
    **{f"{codec}, length largest": 87 for codec in ("gzip", "snappy", "lz4", "zstd")},
}
"""The answers were recorded from Kafka 4.1, which had no `max.decompressed.message.bytes`: the last four break it."""


def config_of(case: Case) -> LogConfig:
    settings: dict[str, object] = {}
    for name, value in case.config.items():
        if name == "cleanup.policy":
            settings |= {"compact": value == "compact", "delete": value == "delete"}
        else:
            settings[name.replace(".", "_")] = int(value) if value.isdecimal() else value
    return LogConfig(**settings)  # type: ignore[arg-type]


def answer_to(case: Case) -> dict[str, object]:
    config = config_of(case)
    try:
        batch, header, max_timestamp, append_time = validate(
            memoryview(bytes(case.make(NOW))), config, AppendOrigin.CLIENT, NOW, "TOPIC-0"
        )
    except KafkaError as error:
        shown = error.message if getattr(error, "on_wire", False) else None
        return {
            "code": int(error.code),
            "message": shown and "<text>",
            "record_errors": [[index, text and "<text>"] for index, text in getattr(error, "record_errors", ())],
        }
    assert len(batch) == header.size
    assert max_timestamp == header.max_timestamp
    if header.size > config.segment_bytes:
        return {"code": 18, "message": None, "record_errors": []}  # the log's own check, behind the validator
    return {
        "code": 0,
        "log_append_time": "NOW" if append_time == NOW else append_time,
        "stored": describe(batch, header, NOW),
        "size": header.size,
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answer_is_kafkas(case: Case) -> None:
    expected = KAFKA[case.name]
    answer = answer_to(case)
    if case.name in STRICTER:
        assert answer["code"] == STRICTER[case.name]
        return
    if expected["code"] == 0 and case.config.get("compression.type", "producer") not in ("producer", "uncompressed"):
        # Another compressor than Kafka's may pack a little better or worse.
        assert abs(answer.pop("size") - expected["size"]) <= 16
        expected = {name: value for name, value in expected.items() if name != "size"}
    assert answer == expected
