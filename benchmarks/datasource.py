"""The `odradek` data source over a topic that a broker has just written: `python -m benchmarks.datasource --help`.

Measured are Spark jobs that read every record and keep none (the `noop` sink), on one core and on two, with all columns
and with three of them, and the same reader in a process of its own without Spark. Beside each rate are the CPU time of
all processes together, JVM included, and the largest resident set of any Python worker, which must not grow with the
data. The last line of each kind shows what nine tenths of the data took more than one tenth, that is, without the fixed
cost of a job.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from odradek import Broker
from odradek_pipeline import session
from odradek_pipeline.datasource import register
from odradek_pipeline.datasource.columns import COLUMNS
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.reader import OdradekReader

FEW = ("key", "value", "offset")
PARTITIONS = 4
KEY_BYTES = 16
SAMPLE_SECONDS = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=1000, help="megabytes of keys and values")
    parser.add_argument("--record", type=int, default=1000, help="bytes of a value")
    parser.add_argument("--codec", default="none", help="compression.type of the producer")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--split-mb", type=int, default=64)
    parser.add_argument("--reader", metavar="FOLDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.reader:
        alone(args.reader, args.split_mb)
        return
    with Broker(profile="dev") as broker:
        for topic, mb in (("tenth", args.mb / 10), ("whole", args.mb)):
            write(broker, topic, mb, args.record, args.codec)
        load = f"{os.getloadavg()[0]:.1f}"
        say(f"{args.mb} MB, values of {args.record} bytes, {args.codec}, {PARTITIONS} partitions, load {load}")
        own = [sys.executable, "-m", "benchmarks.datasource", "--reader", str(broker.data_dir), "--mb", str(args.mb)]
        subprocess.run([*own, "--split-mb", str(args.split_mb)], check=True)
        for cores in args.cores:
            in_spark(broker.data_dir, cores, args.mb, args.split_mb)


def write(broker: Broker, topic: str, mb: float, size: int, codec: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    fill(broker, topic, mb, size, codec)


def fill(broker: Broker, topic: str, mb: float, size: int, codec: str) -> None:
    """Write values of text that compresses to about a third."""
    settings = {
        "compression.type": codec,
        "linger.ms": 20,
        "batch.size": 200_000,
        "queue.buffering.max.messages": 50_000,
    }
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers} | settings)
    draw = random.Random(0)
    values = [(b"%x" % draw.getrandbits(2 * size))[: size // 2].ljust(size) for _ in range(200)]
    for number in range(int(mb * 1e6 / (size + KEY_BYTES))):
        while True:
            try:
                producer.produce(topic, values[number % 200], b"%016d" % number, partition=number // 200 % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("the broker did not acknowledge everything")


def alone(folder: str, split_mb: int) -> None:
    """Measure one process without Spark."""
    for topic in ("tenth", "whole"):
        for names in (tuple(COLUMNS), FEW):
            reader = OdradekReader(
                SourceOptions(paths=(folder,), topics=frozenset([topic]), split_bytes=split_mb << 20), names
            )
            began, used = time.perf_counter(), time.process_time()
            size = 0
            for split in reader.partitions():
                for batch in reader.read(split):
                    size += batch["value"].nbytes + batch["key"].nbytes
            took, used = time.perf_counter() - began, time.process_time() - used
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            report(f"reader alone, {topic}", names, size / 1e6, Job(took, used), peak)


def in_spark(folder: Path, cores: int, mb: int, split_mb: int) -> None:
    spark = session.build(session.SessionOptions(app_name="benchmark", master=f"local[{cores}]"))
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    for names in (FEW, tuple(COLUMNS)):
        read_all(spark, folder, "whole", names, split_mb)  # workers are started, the JVM has compiled what it will
    for names in (tuple(COLUMNS), FEW):
        jobs = []
        for topic, size in (("tenth", mb / 10), ("whole", mb)):
            with Workers() as workers:
                jobs.append(read_all(spark, folder, topic, names, split_mb))
            report(f"local[{cores}], {topic}", names, size, jobs[-1], workers.peak_mb)
        more = Job(jobs[1].seconds - jobs[0].seconds, jobs[1].cpu_seconds - jobs[0].cpu_seconds)
        report(f"local[{cores}], nine tenths", names, 0.9 * mb, more, workers.peak_mb)
    spark.stop()


class Job(NamedTuple):
    """What a job took."""

    seconds: float
    cpu_seconds: float


def read_all(spark: SparkSession, folder: Path, topic: str, names: tuple[str, ...], split_mb: int) -> Job:
    options = {"topics": topic, "columns": ",".join(names), "splitBytes": str(split_mb << 20)}
    frame = spark.read.format("odradek").options(**options).load(str(folder))
    began, used = time.perf_counter(), cpu_seconds()
    frame.write.format("noop").mode("overwrite").save()
    return Job(time.perf_counter() - began, cpu_seconds() - used)


def cpu_seconds() -> float:
    """The CPU time of the processes below this one, and of those that they have waited for."""
    ticks = 0
    for status in below(os.getpid()):
        try:
            fields = Path(f"/proc/{status['Pid']}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # it has ended
        ticks += sum(int(one) for one in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def report(what: str, names: tuple[str, ...], mb: float, job: Job, peak_mb: float) -> None:
    columns = "all columns" if len(names) == len(COLUMNS) else ", ".join(names)
    cpu = f"{1000 * job.cpu_seconds / mb:6.1f} ms CPU/MB"
    say(f"{what:24} {columns:20} {mb / job.seconds:7.0f} MB/s {cpu} {job.seconds:6.1f} s  {peak_mb:5.0f} MB resident")


def say(line: str) -> None:
    sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


@dataclass
class Workers:
    """The largest resident set of any Python process below this one, while the context is entered."""

    peak_mb: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Workers:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            for status in below(os.getpid()):
                if status.get("Name", "").startswith("python") and "VmRSS" in status:
                    self.peak_mb = max(self.peak_mb, int(status["VmRSS"].split()[0]) / 1024)


def below(root: int) -> Iterator[dict[str, str]]:
    """`/proc/PID/status` of the descendants of a process."""
    children: dict[int, list[dict[str, str]]] = {}
    for entry in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = entry.read_text().splitlines()
        except OSError:
            continue  # it has ended
        status = {key: value.strip() for key, value in (line.split(":", 1) for line in lines if ":" in line)}
        children.setdefault(int(status["PPid"]), []).append(status)
    left = [root]
    while left:
        for status in children.get(left.pop(), ()):
            left.append(int(status["Pid"]))
            yield status


if __name__ == "__main__":
    main()
