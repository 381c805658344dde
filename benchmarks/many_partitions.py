"""How long a broker with many partitions takes to start: `python -m benchmarks.many_partitions --help`.

Every partition holds a record. Measured are a start after a clean stop and one after kill -9, each until a record is
acknowledged.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.compaction import resident_mb
from benchmarks.contenders import Contender, arguments, contenders, serving
from benchmarks.first_record import wait_for_first_record

A_TOPIC = 100


def main() -> None:
    options = _options()
    for contender in contenders(options.kafka, options.alone):
        with serving(contender):
            began = time.monotonic()
            fill(f"127.0.0.1:{contender.port}", options.partitions)
            told(contender, "made and filled", time.monotonic() - began)
            for signal_number, what in ((signal.SIGTERM, "clean stop"), (signal.SIGKILL, "kill -9")):
                end(contender.pid(), signal_number)
                began = time.monotonic()
                contender.start()
                wait_for_first_record(contender.port)
                told(contender, f"start after {what}", time.monotonic() - began)


def told(contender: Contender, what: str, seconds: float) -> None:
    sys.stdout.write(f"{contender.name}: {what}: {seconds:.1f} s, {resident_mb(contender.pid()):.0f} MB\n")
    sys.stdout.flush()


def fill(servers: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(f"many-{number}", A_TOPIC, 1) for number in range(partitions // A_TOPIC)]
    for done in admin.create_topics(topics, operation_timeout=300, request_timeout=300).values():
        done.result(300)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50})
    for topic in topics:
        for partition in range(A_TOPIC):
            producer.produce(topic.topic, b"some value", partition=partition)
    assert producer.flush(300) == 0


def end(pid: int, signal_number: signal.Signals) -> None:
    os.kill(pid, signal_number)
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.01)


def _options() -> argparse.Namespace:
    parser = arguments("python -m benchmarks.many_partitions", __doc__)
    parser.add_argument("--partitions", type=int, default=2000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
