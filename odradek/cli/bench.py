"""`odradek bench produce|consume|latency`: how fast a cluster writes and reads, in figures and in charts."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import click
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from odradek.cli.connection import TargetCluster, connected
from odradek.cli.general import ClusterCommands, Seconds
from odradek.cli.output import Output
from odradek.cli.positions import resolve, some_partitions_of
from odradek.cli.streaming import when_there_is_room

POLL_S = 0.01
SECONDS = Seconds()


@click.group("bench", cls=ClusterCommands)
def main() -> None:
    """Measure how fast a cluster writes and reads. The topic must exist, and the records stay in it."""


SLOTS = 40
"""Into how many parts the time is divided for the chart."""


class BenchRates:
    """Counts records and bytes, and the records in each part of the time."""

    def __init__(self, seconds: float) -> None:
        self.records = self.bytes = 0
        self.began = time.monotonic()
        self._seconds = seconds
        self._slots = [0] * SLOTS

    @property
    def passed(self) -> float:
        return time.monotonic() - self.began

    def add(self, size: int) -> None:
        self.records += 1
        self.bytes += size
        self._slots[min(SLOTS - 1, int(self.passed / self._seconds * SLOTS))] += 1

    def tell(self, out: Output, what: str, seconds: float) -> None:
        """Print the figures and the chart of records over time."""
        found = {
            "bench": what,
            "records": self.records,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds),
            "mb_per_second": round(self.bytes / seconds / 1e6, 2),
        }
        if out.as_json:
            out.document(found)
            return
        click.echo(f"{self.records} records in {seconds:.2f} s")
        click.echo(f"{found['records_per_second']} records/s, {found['mb_per_second']} MB/s")
        click.echo(sparkline(self._slots))


def _raise(error: Any, message: Any) -> None:
    """Raises KafkaException, but not where librdkafka looks for a coordinator, which is not needed here."""
    if error is not None and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
        raise KafkaException(error)


def _is_end(message: Any) -> bool:
    return bool(message.error().code() == KafkaError._PARTITION_EOF)


@main.command()
@click.argument("topic")
@click.option("--seconds", type=SECONDS, default=5.0, show_default=True)
@click.option("--size", type=click.IntRange(1, 10**9), default=100, show_default=True, help="Bytes of each record.")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none")
@connected
def produce(
    cluster: TargetCluster, out: Output, topic: str, seconds: float, size: int, acks: str, compression: str
) -> None:
    """Write records as fast as possible."""
    some_partitions_of(cluster.admin(), out, [topic])
    producer = Producer(cluster.config(acks=acks, compression_type=compression, linger_ms=5))
    value, rates = os.urandom(size), BenchRates(seconds)

    def delivered(error: Any, message: Any) -> None:
        _raise(error, message)
        rates.add(size)

    while rates.passed < seconds:
        when_there_is_room(producer, lambda: producer.produce(topic, value, on_delivery=delivered))
    producer.flush()
    rates.tell(out, "produce", rates.passed)


@main.command()
@click.argument("topic")
@click.option("--seconds", type=SECONDS, default=5.0, show_default=True, help="At most; it ends with the topic.")
@connected
def consume(cluster: TargetCluster, out: Output, topic: str, seconds: float) -> None:
    """Read a topic from its start as fast as possible."""
    admin = cluster.admin()
    starts = resolve(admin, out, some_partitions_of(admin, out, [topic]), OffsetSpec.earliest())
    consumer = Consumer(
        cluster.config(group_id=f"odradek-bench-{os.getpid()}", enable_auto_commit=False, enable_partition_eof=True)
    )
    consumer.assign([TopicPartition(name, number, offset) for (name, number), offset in starts.items()])
    rates, ended, last = BenchRates(seconds), 0, 0.0
    while rates.passed < seconds and ended < len(starts):
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                rates.add(len(message.value() or b"") + len(message.key() or b""))
                last = rates.passed
            elif _is_end(message):
                ended += 1
            else:
                _raise(message.error(), message)
    consumer.close()
    rates.tell(out, "consume", max(last, 1e-3))


@main.command()
@click.argument("topic")
@click.option("-n", "--count", type=click.IntRange(min=1), default=1000, show_default=True, help="Records, one by one.")
@click.option("--size", type=click.IntRange(1, 10**9), default=100, show_default=True, help="Bytes of each record.")
@connected
def latency(cluster: TargetCluster, out: Output, topic: str, count: int, size: int) -> None:
    """Write records one by one, and read each: the time from the send to the read."""
    admin = cluster.admin()
    ends = resolve(admin, out, some_partitions_of(admin, out, [topic])[:1], OffsetSpec.latest())
    producer = Producer(cluster.config(linger_ms=0))
    consumer = Consumer(
        cluster.config(group_id=f"odradek-bench-{os.getpid()}", enable_auto_commit=False, fetch_wait_max_ms=500)
    )
    consumer.assign([TopicPartition(name, number, offset) for (name, number), offset in ends.items()])
    value = os.urandom(size)
    written: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        _raise(error, message)
        written.append(message.offset())

    found: list[float] = []
    for number in range(1, count + 1):
        began = time.perf_counter()
        producer.produce(topic, value, partition=0, on_delivery=delivered)
        read: dict[int, float] = {}  # by offset; others write here too, and which record is ours is told later
        while len(written) < number or written[-1] not in read:
            producer.poll(0)
            message = consumer.poll(POLL_S)
            if message is not None and message.error() is not None:
                _raise(message.error(), message)
            elif message is not None:
                read[message.offset() or 0] = time.perf_counter()
            if time.perf_counter() - began > cluster.timeout:
                raise click.ClickException(f"record {number} was not read within {cluster.timeout:g} s")
        found.append((read[written[-1]] - began) * 1000)
    consumer.close()
    figures = {f"p{share * 100:g}_ms": round(percentile(found, share), 3) for share in (0.5, 0.9, 0.99, 0.999)}
    if out.as_json:
        out.document({"bench": "latency", "records": count, **figures})
        return
    out.lines([(name.replace("_ms", ""), f"{value} ms") for name, value in figures.items()])
    for line in histogram(found, "ms"):
        click.echo(line)


# -- charts of block characters, for a terminal

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40


def sparkline(values: Sequence[float]) -> str:
    """One character for each value, as high as it is."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return BARS[0] * len(values)
    return "".join(BARS[min(len(BARS) - 1, int(value / highest * len(BARS)))] for value in values)


def histogram(values: Sequence[float], unit: str, rows: int = 10) -> list[str]:
    """Lines with a bar for each range of values, all as wide."""
    if not values:
        return []
    low, high = min(values), max(values)
    step = (high - low) / rows or 1.0
    counts = [0] * rows
    for value in values:
        counts[min(rows - 1, int((value - low) / step))] += 1
    most = max(counts)
    return [
        f"{low + number * step:9.2f} {unit}  {'█' * round(count / most * WIDTH)} {count}"
        for number, count in enumerate(counts)
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
