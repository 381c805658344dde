"""Spark on top: MB/s and memory of the Kafka connector and of `lake`, beside the same with Apache Kafka.

python -m benchmarks.pipeline [--megabytes 100] [--cores 1 --cores 2] [--kafka HOST:PORT] [--grow]

Each figure is from a JVM of its own with `local[CORES]`, after a warm-up on a small topic. Records are 1 KB in four
partitions, without compression. CPU is what the JVM took of all cores: on a machine that is busy with something else,
MB/s mean little. `connector` reads the records with Spark's Kafka connector and drops them; `lake` writes them to
a Delta table of raw values; `lake json` parses them first, `lake json kept` keeps one field as an unknown one;
`lake protobuf` has messages with the same fields, which workers in Python read. Broker and Spark share the machine.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.measures import cpu_seconds
from odradek import Broker

MB = 1_000_000
RECORD_BYTES = 1000
PARTITIONS = 4
WARM_MB = 5
JOBS = ("connector", "lake", "lake json", "lake json kept", "lake protobuf")
PROTO = 'syntax = "proto3"; message Value { int64 id = 1; double amount = 2; string text = 3; }'
Make = Callable[[random.Random, int], bytes]


def fill(bootstrap: str, megabytes: int, make: Make | None = None) -> str:
    """Create a topic with that many MB of values that do not compress well, of JSON by default; return its name."""
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    chance = random.Random(1)
    values = [(make or _value)(chance, number) for number in range(1000)]
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 500_000})
    for number in range(megabytes * MB // RECORD_BYTES):
        while True:
            try:
                producer.produce(topic, values[number % 1000], partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return topic


def _value(chance: random.Random, number: int) -> bytes:
    fields = {"id": number, "amount": chance.random(), "text": ""}
    room = RECORD_BYTES - len(json.dumps(fields))
    return json.dumps(fields | {"text": chance.randbytes(room // 2).hex()}).encode()


def _message() -> Make:
    from odradek.schemas.protobuf import Messages
    from odradek.schemas.protoc import compile_text

    kind = Messages(compile_text(PROTO, {})).class_at([0])

    def make(chance: random.Random, number: int) -> bytes:
        message = kind(id=number, amount=chance.random(), text=chance.randbytes((RECORD_BYTES - 20) // 2).hex())
        return bytes(message.SerializeToString())

    return make


def measure(spec: dict[str, Any]) -> dict[str, float]:
    """Run one job in a process of its own; `spec` is the argument of `_child`."""
    command = [sys.executable, "-m", "benchmarks.pipeline", "--child", json.dumps(spec)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(done.stderr[-3000:])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _child(spec: dict[str, Any]) -> None:
    from odradek_pipeline import session

    with tempfile.TemporaryDirectory() as folder:
        spark = session.build(
            session.SessionOptions(
                master=f"local[{spec['cores']}]",
                parts=(session.KAFKA, session.DELTA),
                conf={"spark.sql.maxConcurrentOutputFileWriters": "4"},
            )
        )
        run = _connector if spec["job"] == "connector" else _lake
        run(spark, spec, spec["warm"], folder)
        pid = spark._jvm.java.lang.ProcessHandle.current().pid()
        began, cpu_before = time.perf_counter(), cpu_seconds(pid)
        run(spark, spec, spec["topic"], folder)
        seconds, cpu = time.perf_counter() - began, cpu_seconds(pid) - cpu_before
        status = Path(f"/proc/{pid}/status").read_text()
        peak_kb = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        spark.stop()
    click.echo(json.dumps({"seconds": seconds, "cpu": cpu, "jvm_mb": peak_kb / 1000}))


def _connector(spark: Any, spec: dict[str, Any], topic: str, _folder: str) -> None:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", spec["bootstrap"])
    reader.option("subscribe", topic).load().write.format("noop").mode("overwrite").save()


def _lake(spark: Any, spec: dict[str, Any], topic: str, folder: str) -> None:
    from odradek_pipeline.files import Files
    from odradek_pipeline.kafka import Admin, ClusterAddress
    from odradek_pipeline.lake.ingest import IngestServices
    from odradek_pipeline.lake.job import LakeJob
    from odradek_pipeline.lake.progress import Reporter
    from odradek_pipeline.lake.schemas import parse_specs
    from odradek_pipeline.lake.settings import LakeSettings

    file = Path(folder) / "value.proto"
    file.write_text(PROTO)
    schemas = {
        "lake json": ["*=json:id BIGINT, amount DOUBLE, text STRING"],
        "lake json kept": ["*=json:id BIGINT, text STRING"],
        "lake protobuf": [f"*=protobuf:@{file}"],
    }.get(spec["job"], [])
    kept = "unknown_fields" if spec["job"] == "lake json kept" else ""
    cluster = ClusterAddress(spec["bootstrap"])
    settings = LakeSettings(
        cluster, folder, (topic,), available_now=True, specs=parse_specs(schemas), unknown_fields=kept
    )
    reporter = Reporter()
    with Admin(spark, cluster) as admin:
        failed = LakeJob(IngestServices(spark, Files(spark), admin, settings, reporter.counted), reporter).run().failed
    if failed:
        raise click.ClickException(str(failed))


def _row(name: str, megabytes: int, figures: dict[str, float]) -> None:
    rate, cpu_ms = megabytes / figures["seconds"], 1000 * figures["cpu"] / megabytes
    click.echo(f"| {name} | {rate:.0f} | {figures['seconds']:.1f} | {cpu_ms:.0f} | {figures['jvm_mb']:.0f} |")


def _tables(name: str, bootstrap: str, megabytes: int, cores: tuple[int, ...], jobs: tuple[str, ...]) -> None:
    makes: dict[str, Make | None] = {"json": None}
    if "lake protobuf" in jobs:
        makes["protobuf"] = _message()
    topics = {kind: (fill(bootstrap, WARM_MB, make), fill(bootstrap, megabytes, make)) for kind, make in makes.items()}
    for count in cores:
        for job in jobs:
            warm, topic = topics["protobuf" if job == "lake protobuf" else "json"]
            spec = {"bootstrap": bootstrap, "warm": warm, "topic": topic, "cores": count, "job": job}
            _row(f"{job}, {name}, {count} cores, {megabytes} MB", megabytes, measure(spec))


@click.command(help=__doc__)
@click.option("--megabytes", default=100, show_default=True)
@click.option("--cores", multiple=True, type=int, default=(1, 2), show_default=True)
@click.option("--job", "jobs", multiple=True, type=click.Choice(JOBS), default=JOBS, show_default=True)
@click.option("--kafka", metavar="HOST:PORT", help="an Apache Kafka to compare with")
@click.option("--grow", is_flag=True, help="once more with ten times the data and the last --cores: memory")
@click.option("--child", hidden=True)
def main(
    megabytes: int, cores: tuple[int, ...], jobs: tuple[str, ...], kafka: str | None, grow: bool, child: str | None
) -> None:
    if child is not None:
        _child(json.loads(child))
        return
    click.echo("| job | MB/s | seconds | CPU ms/MB | JVM's peak, MB |\n| --- | ---: | ---: | ---: | ---: |")
    with Broker(profile="dev") as broker:
        run: list[Callable[[], None]] = [
            lambda: _tables("Odradek", broker.bootstrap_servers, megabytes, cores, jobs),
        ]
        if kafka is not None:
            run.append(lambda: _tables("Kafka", kafka, megabytes, cores, jobs))
        if grow:
            run.append(lambda: _tables("Odradek", broker.bootstrap_servers, 10 * megabytes, cores[-1:], jobs))
        for each in run:
            each()


if __name__ == "__main__":
    main()
