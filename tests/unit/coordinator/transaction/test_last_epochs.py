"""The last epochs of an id: the coordinator answers as Apache Kafka 4.1 did (recorders/ask_kafka_last_epochs.py)."""

from __future__ import annotations

import json

import pytest

from coordinator.runtime.outcome import CoordinatorRecord, Outcome, ProducerEpoch
from coordinator.transaction.transaction_metadata import TV_2
from protocol.coordinator_records.transaction_records import TRANSACTION_LOG
from protocol.errors import KafkaError
from tests.unit.coordinator.transaction.last_epochs import ANSWERS, CONVERSATIONS, FIRST, Add, End, Init, Step, Who
from tests.unit.coordinator.transaction.rig import Rig

P = ("topic", 0)
NOTHING = [0, -1, -1]


class Speaker:
    """One transactional id; `ids` are its producer ids in the order in which they came to be."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._ids = [rig.producer().producer_id]
        begun = rig.metadata()
        assert begun is not None
        record = CoordinatorRecord(TRANSACTION_LOG, "tx", begun._replace(producer_epoch=FIRST).to_log())
        rig.runtime.write(0, lambda _: Outcome((record,))).result()

    def _producer(self, who: Who) -> ProducerEpoch:
        return ProducerEpoch(self._ids[who[0]], who[1])

    def _told(self, producer: ProducerEpoch) -> list[int]:
        if producer.producer_id not in self._ids:
            self._ids.append(producer.producer_id)
        return [0, self._ids.index(producer.producer_id), producer.producer_epoch]

    def _asked(self, step: Step) -> list[int]:
        match step:
            case Init(who):
                return self._told(self._rig.producer(expected=None if who is None else self._producer(who)))
            case Add(who, version):
                self._rig.add(self._producer(who), P, version=version).result()
                return NOTHING
            case End(who, version, commit):
                ended = self._rig.end(self._producer(who), commit, version=version).result()
                return self._told(ended) if version == TV_2 else NOTHING

    def ask(self, step: Step) -> list[int]:
        """Code, the producer's number, its epoch."""
        try:
            return self._asked(step)
        except KafkaError as error:
            return [int(error.code), -1, -1]


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_answers_are_kafkas(name: str) -> None:
    speaker = Speaker(await Rig().started())
    assert [speaker.ask(step) for step in CONVERSATIONS[name]] == json.loads(ANSWERS.read_text())[name]
