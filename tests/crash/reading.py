"""What a partition holds, read with librdkafka, and the logs of a data folder checked with Apache Kafka's own tool."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.client.java_tools import java
from tests.messages import place_of, value_of

GAP = re.compile(r" *\d+ is followed by")
"""Two offsets of a log that are not consecutive. Kafka 4.4's tool also says `-1 is followed by` the first offset of
each log that does not begin at 0, which is no fault."""

COMPLAINTS = (
    *("mismatch", "not found in", "out of order", "isvalid: false", "invalid bytes"),
    *("corrupt", "exception", "error", "failed"),
)


def read_partition(bootstrap: str, topic: str, partition: int) -> dict[int, bytes]:
    """Offset to value, from the start of the log to its end as it is now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    found: dict[int, bytes] = {}
    try:
        end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1]
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while len(found) < end:
            messages = consumer.consume(min(5000, end - len(found)), timeout=30)
            assert messages, f"nothing more came after {len(found)} of {end} records of {topic}-{partition}"
            for message in messages:
                assert message.error() is None, message.error()
                found[place_of(message)[1]] = value_of(message)
    finally:
        consumer.close()
    return found


def complaints_of_dump_log_segments(data_dir: Path, *, indexes: bool) -> list[str]:
    """Lines in which DumpLogSegments complains of any file; `indexes` only after a clean stop."""
    lines: list[str] = []
    logs = sorted(map(str, data_dir.glob("*-*/*.log")))
    assert logs
    lines += _dump("--deep-iteration", "--files", ",".join(logs))
    if indexes:
        index_files = sorted(str(path) for kind in ("index", "timeindex") for path in data_dir.glob(f"*-*/*.{kind}"))
        lines += _dump("--verify-index-only", "--files", ",".join(index_files))
        lines += _dump("--index-sanity-check", "--files", ",".join(index_files))
        snapshots = sorted(map(str, data_dir.glob("*-*/*.snapshot")))
        if snapshots:
            lines += _dump("--files", ",".join(snapshots))
    return [line for line in lines if GAP.match(line) or any(word in line.lower() for word in COMPLAINTS)]


def _dump(*arguments: str) -> list[str]:
    run = java("org.apache.kafka.tools.DumpLogSegments", *arguments, timeout=120)
    assert run.returncode == 0, run.stderr.decode()
    return (run.stdout + run.stderr).decode().splitlines()


def read_committed_values(bootstrap: str, topic: str, partition: int) -> dict[int, bytes]:
    """Offset to value of what a read_committed consumer gets, in that order; the log may have gaps."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: dict[int, bytes] = {}
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, f"nothing more came after {len(found)} records of {topic}-{partition}"
            error = message.error()
            if error is None:
                found[place_of(message)[1]] = value_of(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
    finally:
        consumer.close()
