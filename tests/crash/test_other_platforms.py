"""A broker on a platform that lacks what Linux with glibc has: no fdatasync, no pidfd, no uvloop, lz4 or google-re2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from odradek.location import launcher

pytestmark = pytest.mark.usefixtures("own_cluster")

LESS = """
import os, sys
for name in ("fdatasync", "pidfd_open", "RWF_NOWAIT", "posix_fallocate", "posix_fadvise", "eventfd", "memfd_create"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("uvloop", "lz4", "lz4.frame", "re2"):
    sys.modules[name] = None
import runpy
launcher = sys.argv.pop(1)
sys.argv[0] = launcher
runpy.run_path(launcher, run_name="__main__")
"""
PATIENCE_S = 30.0


@contextmanager
def broker(folder: Path, *settings: str) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """The process, its address and its log."""
    ready, log = folder / "ready.json", folder / "log"
    ready.unlink(missing_ok=True)  # of an earlier start
    given = ["listeners=PLAINTEXT://127.0.0.1:0", "odradek.http.port=-1", f"log.dirs={folder / 'data'}", *settings]
    command = [sys.executable, "-I", "-c", LESS, str(launcher()), "serve", "--ready-file", str(ready)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "ODRADEK_"))}
    with log.open("ab") as stream:
        child = subprocess.Popen(
            [*command, *(word for one in given for word in ("--set", one))], stdout=stream, stderr=stream, env=kept
        )
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not (ready.exists() and ready.read_text().endswith("\n")):
                assert child.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            (address,) = json.loads(ready.read_text())["listeners"].values()
            yield child, address, log
        finally:
            child.terminate()
            child.wait(30)


def consume(address: str, topic: str, count: int, **settings: str) -> list[bytes]:
    given = {"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest", **settings}
    consumer = Consumer({key.replace("_", "."): value for key, value in given.items()})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
            elif message is not None and message.error() is not None:
                raise KafkaException(message.error())
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_survive_a_kill(codec: str, tmp_path: Path) -> None:
    values = [b"%06d" % number * 200 for number in range(500)]
    flushed = ("log.flush.interval.messages=1", "compression.type=lz4")  # so that the broker compresses too
    with broker(tmp_path, *flushed) as (child, address, _):
        producer = Producer({"bootstrap.servers": address, "compression.codec": codec, "linger.ms": 20})
        for value in values:
            producer.produce("t", value, partition=0)
        assert producer.flush(30) == 0
        child.kill()
        child.wait()
    with broker(tmp_path, *flushed) as (child, address, log):
        assert consume(address, "t", len(values)) == values
        child.terminate()
        assert child.wait(30) == 0
        assert "Traceback" not in log.read_text()


def test_regular_expressions_are_refused_without_re2(tmp_path: Path) -> None:
    with broker(tmp_path) as (_, address, log):
        with pytest.raises(KafkaException) as refused:
            consume(address, "^orders.*", 1, group_protocol="consumer")
        assert "regular expression is not valid" in str(refused.value)
        assert "Traceback" not in log.read_text()
