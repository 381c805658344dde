"""ProducerStateManager answers a long walk of producers as Apache Kafka 4.1 did (recorders/ask_kafka_producers.py)."""

from __future__ import annotations

import json

from protocol.errors import KafkaError
from protocol.records.batch import read_header
from protocol.records.build import ControlRecordType, EndTransactionMarker, build_end_marker
from storage.append_types import AppendOrigin
from storage.producers.producer_state import Duplicate, ProducerStateManager
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.producers.producer_steps import ANSWERS, FIRST_PRODUCER_ID, Marker, Step, steps

NOW = 1_700_000_000_000


class Log:
    """As much of a log as producers need: an end offset."""

    def __init__(self) -> None:
        fs = MemoryFileSystem()
        fs.mkdir("/data/t-0")
        self.fs = fs
        self.producers = ProducerStateManager(fs, "/data/t-0", "t-0")
        self.end = 0

    def append(self, batch: bytes, origin: AppendOrigin) -> int:
        """The offset at which the batch is now, or was before."""
        header = read_header(batch)
        checked = self.producers.check(batch, header, origin)
        if isinstance(checked, Duplicate):
            return checked.first_offset
        offset = self.end
        self.producers.publish(checked, offset)
        self.end += header.last_offset_delta + 1
        return offset


def answer_to(log: Log, step: Step | Marker) -> list[int]:
    if isinstance(step, Step):
        try:
            return [0, log.append(step.batch(NOW), AppendOrigin.CLIENT)]
        except KafkaError as error:
            return [int(error.code), -1]
    kind = ControlRecordType.COMMIT if step.commit else ControlRecordType.ABORT
    marker = build_end_marker(
        EndTransactionMarker(kind, step.coordinator_epoch),
        producer_id=step.producer_id,
        producer_epoch=step.epoch,
        timestamp=NOW,
    )
    try:
        log.append(bytes(marker), AppendOrigin.COORDINATOR)
    except KafkaError as error:
        return [int(error.code)]
    return [0]


def test_answers_are_kafkas() -> None:
    log = Log()
    answers = [answer_to(log, step) for step in steps(FIRST_PRODUCER_ID)]
    assert answers == json.loads(ANSWERS.read_text())
