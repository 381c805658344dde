"""Have a real Apache Kafka write a log with transactions and keep its files in `kafka_log/`.

Run by hand from the repository's root: `python -m tools.recorders.fetch_kafka_log 127.0.0.1:19092 ITS-DATA-FOLDER`.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.unit.storage.test_kafka_log import FILES

SEGMENT_MS = 1500


def main(address: str, data: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    run = int(time.time())
    topic = f"transactions-{run}"
    for future in admin.create_topics([NewTopic(topic, 1, 1, config={"segment.ms": str(SEGMENT_MS)})]).values():
        future.result()
    time.sleep(0.5)
    plain = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})
    first, second, third = (transactional(address, f"{run}-{name}") for name in "abc")
    for commit in (True, False, True, False):
        write(plain, topic, 3)
        for producer in (first, second):
            producer.begin_transaction()
            write(producer, topic, 2)
        first.commit_transaction() if commit else first.abort_transaction()
        second.abort_transaction()
    third.begin_transaction()
    write(third, topic, 4)
    first.begin_transaction()
    write(first, topic, 2)
    first.abort_transaction()
    time.sleep(SEGMENT_MS / 1000 + 0.5)
    write(plain, topic, 1)  # rolls the segment
    second.begin_transaction()
    write(second, topic, 1)
    second.abort_transaction()
    time.sleep(1)
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    for file in sorted(Path(data, f"{topic}-0").iterdir()):
        if file.suffix in (".log", ".snapshot", ".txnindex") or file.name == "leader-epoch-checkpoint":
            (FILES / file.name).write_bytes(file.read_bytes())
            sys.stdout.write(f"{file.name} {file.stat().st_size}\n")
    third.abort_transaction()


def transactional(address: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": address, "transactional.id": name})
    producer.init_transactions()
    return producer


def write(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.produce(topic, b"value %d" % number)
    producer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
