"""Cold records through the `odradek` data source, beside hot ones: `python -m benchmarks.cold_reads --help`.

A broker writes one topic that stays in its folder, and one each whose closed segments go to a folder and to a server of
S3 on this machine, which may wait before each answer as a far one does. Each is read to its end by the reader
of the data source, in a process of its own, without Spark. The largest resident set must not grow with the data.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.datasource import PARTITIONS, Job, fill, report, say
from odradek import Broker
from odradek_pipeline.datasource.columns import COLUMNS
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.reader import OdradekReader
from tests.doubles.s3_server import S3Server, s3_server

BUCKET = "archive"
SEGMENT_BYTES = 32 << 20
SECONDS = 600
TIERED = {
    "remote.storage.enable": "true",
    "local.retention.bytes": "1",
    "segment.bytes": str(SEGMENT_BYTES),
    "file.delete.delay.ms": "0",
}
BROKER = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.retention.ms": "-1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=400, help="megabytes of keys and values, of each topic")
    parser.add_argument("--record", type=int, default=1000, help="bytes of a value")
    parser.add_argument("--wait-ms", type=int, nargs="+", default=[0, 50], help="before each answer of S3")
    parser.add_argument("--reader", nargs=2, metavar=("WHAT", "OPTIONS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.reader:
        alone(args.reader[0], json.loads(args.reader[1]))
        return
    say(f"{args.mb} MB, values of {args.record} bytes, {PARTITIONS} partitions, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as directory:
        folder = {"rsm.config.dir": directory, "remote.log.storage.manager.class.name": "folder"}
        with Broker({**BROKER, **folder}, profile="dev") as broker:
            for topic, config in (("hot", {}), ("cold", TIERED)):
                written(broker, topic, args.mb, args.record, config)
            for what, topic, more in (("local", "hot", {}), ("tier in a folder", "cold", {"tier": directory})):
                start_reader(what, {"path": str(broker.data_dir), "topics": topic, **more})
    with far_server() as (server, address), Broker({**BROKER, **store_on(address)}, profile="dev") as broker:
        written(broker, "cold", args.mb, args.record, TIERED)
        for wait in args.wait_ms:
            server.wait = wait / 1000
            options = {"path": str(broker.data_dir), "topics": "cold", **found_on(address)}
            start_reader(f"tier on S3, {wait} ms", options)
        server.wait = 0.0


class FarServer(S3Server):
    """It waits so many seconds before each answer."""

    wait = 0.0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.wait:
            await asyncio.sleep(self.wait)
        return await super().answer(request)


@contextmanager
def far_server() -> Iterator[tuple[FarServer, str]]:
    with s3_server(BUCKET, FarServer) as (server, address):
        assert isinstance(server, FarServer)
        yield server, address


def store_on(address: str) -> dict[str, str]:
    """Settings of a broker."""
    s3 = "rsm.config.storage.s3"
    return {
        "remote.log.storage.manager.class.name": "s3",
        f"{s3}.bucket.name": BUCKET,
        f"{s3}.endpoint.url": address,
        f"{s3}.region": "us-east-1",
        "rsm.config.storage.aws.access.key.id": "key",
        "rsm.config.storage.aws.secret.access.key": "secret",
    }


def found_on(address: str) -> dict[str, str]:
    """Options of the data source."""
    keys = {"s3AccessKey": "key", "s3SecretKey": "secret", "s3Region": "us-east-1"}
    return {"tier": f"s3://{BUCKET}/", "s3Endpoint": address, **keys}


def written(broker: Broker, topic: str, mb: int, size: int, config: Mapping[str, str]) -> None:
    """A topic, filled; a tiered one has only its active segments here when this returns."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=dict(config))])[topic].result(30)
    fill(broker, topic, mb, size, "none")
    deadline = time.monotonic() + SECONDS
    while config and len(list(broker.data_dir.glob(f"{topic}-*/*.log"))) > PARTITIONS:
        if time.monotonic() > deadline:
            raise RuntimeError("the broker does not copy its segments")
        time.sleep(0.2)


def start_reader(what: str, options: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "benchmarks.cold_reads", "--reader", what, json.dumps(options)]
    subprocess.run(command, check=True)


def alone(what: str, options: Mapping[str, str]) -> None:
    names = tuple(COLUMNS)
    reader = OdradekReader(SourceOptions.parse(options), names)
    began, used = time.perf_counter(), time.process_time()
    size = 0
    for split in reader.partitions():
        for batch in reader.read(split):
            size += batch["value"].nbytes + batch["key"].nbytes
    took, used = time.perf_counter() - began, time.process_time() - used
    report(what, names, size / 1e6, Job(took, used), peak_mb())


def peak_mb() -> float:
    """The largest resident set of this program; that of `getrusage` begins with the parent's, here all objects."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    main()
