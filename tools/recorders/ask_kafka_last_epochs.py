"""Lead a real Apache Kafka through `last_epochs` and write its answers to `kafka_last_epochs.json`.

Run by hand from the repository's root, for minutes: `python -m tools.recorders.ask_kafka_last_epochs 127.0.0.1:19092`.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from coordinator.transaction.transaction_metadata import TV_0
from tests.conformance.wire import Wire
from tests.unit.coordinator.transaction.last_epochs import ANSWERS, CONVERSATIONS, FIRST, Add, End, Init, Step, Who

NOBODY: Who = (-1, -1)


class Speaker:
    """One transactional id on one connection; `ids` are its producer ids in the order in which they came to be."""

    def __init__(self, address: str, topic: str, name: str) -> None:
        host, port = address.rsplit(":", 1)
        self._wire = Wire(host, int(port), timeout=60)
        self._topic = topic
        self._name = name
        self._ids: list[int] = []

    def call(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._wire.call(api, version, body)
        if not isinstance(answer, dict):
            raise RuntimeError(f"{api}: {answer}")
        return answer

    def until(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """The answer once it is no error."""
        while True:
            answer = self.call(api, version, body)
            if answer["error_code"] == "0 NONE":
                return answer
            time.sleep(0.05)

    def begin(self) -> None:
        """Use up all epochs before the first of the conversation."""
        self.until("find_coordinator", 2, {"key": self._name, "key_type": 1})
        while self.until("init_producer_id", 4, self._init(NOBODY))["producer_epoch"] < FIRST:
            pass

    def _init(self, who: Who) -> dict[str, Any]:
        return {"transactional_id": self._name, "transaction_timeout": 600_000} | self._named(who)

    def _named(self, who: Who) -> dict[str, Any]:
        number, epoch = who
        return {"producer_id": self._ids[number] if number >= 0 else -1, "producer_epoch": epoch}

    def told(self, answer: dict[str, Any]) -> list[int]:
        """Code, the producer's number, its epoch."""
        code = int(answer["error_code"].split()[0])
        producer_id = answer.get("producer_id", -1)
        if producer_id >= 0 and producer_id not in self._ids:
            self._ids.append(producer_id)
        return [code, self._ids.index(producer_id) if producer_id >= 0 else -1, answer.get("producer_epoch", -1)]

    def ask(self, step: Step) -> list[int]:
        match step:
            case Init(who):
                told = self.told(self.call("init_producer_id", 4, self._init(who or NOBODY)))
            case Add(who, version):
                one = {"transactional_id": self._name, "topics": [{"name": self._topic, "partitions": [0]}]}
                told = self._add(one | self._named(who), version)
            case End(who, version, commit):
                body = {"transactional_id": self._name, "committed": commit} | self._named(who)
                told = self.told(self.call("end_txn", 4 if version == TV_0 else 5, body))
        while self._state().startswith("Prepare"):
            time.sleep(0.01)
        return told

    def _add(self, one: dict[str, Any], version: int) -> list[int]:
        if version == TV_0:
            answer = self.call("add_partitions_to_txn", 3, {f"v3_and_below_{key}": value for key, value in one.items()})
            topics = answer["results_by_topic_v3_and_below"]
        else:
            answer = self.call("add_partitions_to_txn", 5, {"transactions": [one | {"verify_only": False}]})
            topics = answer["results_by_transaction"][0]["topic_results"]
        return [int(topics[0]["results_by_partition"][0]["partition_error_code"].split()[0]), -1, -1]

    def _state(self) -> str:
        (state,) = self.call("describe_transactions", 0, {"transactional_ids": [self._name]})["transaction_states"]
        return str(state["transaction_state"])

    def lead(self, steps: list[Step]) -> list[list[int]]:
        self.begin()
        (state,) = self.call("describe_transactions", 0, {"transactional_ids": [self._name]})["transaction_states"]
        self._ids.append(state["producer_id"])
        return [self.ask(step) for step in steps]


def lead(address: str, topic: str, name: str) -> list[list[int]]:
    return Speaker(address, topic, f"{topic}-{name}").lead(CONVERSATIONS[name])


def main(address: str) -> None:
    topic = f"epochs-{int(time.time())}"
    made = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    Speaker(address, topic, "").call("create_topics", 7, {"topics": [made], "timeout": 10_000})
    with ThreadPoolExecutor(len(CONVERSATIONS)) as pool:
        answers = dict(zip(CONVERSATIONS, pool.map(partial(lead, address, topic), CONVERSATIONS), strict=True))
    ANSWERS.write_text(json.dumps(answers, indent=1) + "\n")
    sys.stdout.write(f"{sum(map(len, answers.values()))} answers\n")


if __name__ == "__main__":
    main(sys.argv[1])
