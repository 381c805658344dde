"""Ask a real Apache Kafka with a folder that fails about what lay in it, and write the answers to `kafka_offline.json`.

Run by hand, with a Kafka of two folders that was started under `failing_folder.c`:

    python -m tools.recorders.ask_kafka_offline 127.0.0.1:19092 FILE FOLDER

makes a topic, groups and producers, lets FOLDER fail by its name in FILE (FAILING_FOLDER_FILE), and asks.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from coordinator.runtime.runtime import partition_for
from tests.conformance.schema import NO_ID
from tests.conformance.wire import Wire
from tests.unit.broker.replication.offline_questions import ANSWERS, TOPIC, Subjects, questions

PARTITIONS = 6
NAMES = [f"key{number}" for number in range(40)]
INTERNAL = {0: "__consumer_offsets", 1: "__transaction_state"}


def ready(wire: Wire, api: str, version: int, body: dict[str, Any]) -> Any:
    """The answer, once it has no error at its top."""
    while True:
        answer = wire.call(api, version, body)
        if answer.get("error_code", "0 NONE").startswith("0"):
            return answer
        time.sleep(0.5)


def make(wire: Wire) -> None:
    topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1, "assignments": [], "configs": []}
    wire.call("create_topics", 7, {"topics": [topic], "timeout": 9000, "validate_only": False})
    for kind in INTERNAL:
        while any(
            not one["error_code"].startswith("0")
            for one in wire.call("find_coordinator", 4, {"key_type": kind, "coordinator_keys": NAMES})["coordinators"]
        ):
            time.sleep(0.5)
    time.sleep(5)
    touch(wire)


def touch(wire: Wire) -> None:
    """Something is written to each partition, so that what fails is noticed."""
    for name in NAMES:
        wire.call("init_producer_id", 4, init_of(name))
    for question in (one for index in range(PARTITIONS) for one in questions(Subjects(NO_ID, index, "", "", "", 1, 0))):
        if question.name == "produce":
            wire.call(question.api, question.version, dict(question.body))


def init_of(name: str) -> dict[str, Any]:
    return {"transactional_id": name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}


def subjects(wire: Wire) -> Subjects:
    body = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    topics = wire.call("metadata", 12, body)["topics"]
    offline = {
        topic["name"]: {one["partition_index"] for one in topic["partitions"] if one["leader_id"] < 0}
        for topic in topics
    }
    (topic_id,) = [topic["topic_id"] for topic in topics if topic["name"] == TOPIC]
    groups, transactions = (
        [name for name in NAMES if partition_for(name, 50) in offline[topic]] for topic in INTERNAL.values()
    )
    producer = next(name for name in NAMES if name not in transactions)
    made = ready(wire, "init_producer_id", 4, init_of(producer))
    return Subjects(
        topic_id,
        min(offline[TOPIC]),
        groups[0],
        transactions[0],
        producer,
        made["producer_id"],
        made["producer_epoch"],
    )


def main(address: str, file: str, folder: str) -> None:
    host, _, port = address.rpartition(":")
    wire = Wire(host, int(port), timeout=10)
    make(wire)
    Path(file).write_text(folder)
    touch(wire)
    time.sleep(5)
    of = subjects(wire)
    told = {
        question.name: question.told(wire.call(question.api, question.version, dict(question.body)), of.partition)
        for question in questions(of)
    }
    ANSWERS.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{len(told)} answers\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
