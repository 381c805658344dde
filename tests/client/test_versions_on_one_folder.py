"""An upgrade and a downgrade: an earlier commit, this tree, the earlier commit again on one data folder.

The earlier one is taken out of git's history, and runs with this environment's packages. A kill -9 ends each owner but
the first, under a transactional producer and a group.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.usefixtures("own_cluster"), pytest.mark.torture, pytest.mark.timeout(300)]

EARLIER = "9ef7a3a5"
ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the earlier commit."""
    folder = tmp_path_factory.mktemp("earlier")
    done = subprocess.run(["git", "archive", EARLIER], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"git has no commit {EARLIER} here: {done.stderr.decode()[-200:]}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=done.stdout, check=True)
    return folder


@contextmanager
def broker_of(tree: Path, data: Path, *, killed: bool) -> Iterator[str]:
    """A broker of a tree on the folder, by its address; killed at the end, or stopped cleanly."""
    settings = ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={data}", "odradek.http.port=-1", "odradek.profile=dev")
    arguments = [part for setting in settings for part in ("--set", setting)]
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "odradek", "serve", "--ready-fd", str(writing), *arguments]
    environ = {**os.environ, "PYTHONPATH": str(tree)}
    with subprocess.Popen(command, cwd=tree, env=environ, pass_fds=[writing], stderr=subprocess.PIPE) as broker:
        try:
            os.close(writing)
            with os.fdopen(reading) as ready:
                line = ready.readline()
            assert line, (broker.stderr.read() if broker.stderr else b"").decode()[-3000:]
            (address,) = json.loads(line)["listeners"].values()
            yield address
            if not killed:
                broker.terminate()
                assert broker.wait(PATIENCE_S) == 0
        finally:
            broker.kill()


def work(bootstrap: str, number: int) -> list[bytes]:
    """A committed and an aborted transaction, and what the group reads then, where it has left off."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if "versions" not in admin.list_topics(timeout=PATIENCE_S).topics:
        admin.create_topics([NewTopic("versions", 1, 1)])["versions"].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})
    producer.init_transactions(PATIENCE_S)
    for kept in (True, False):
        producer.begin_transaction()
        producer.produce("versions", f"{number} {'kept' if kept else 'aborted'}".encode(), partition=0)
        producer.flush(PATIENCE_S)
        if kept:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["versions"])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error() is None, message.error()
    consumer.commit(message=message, asynchronous=False)
    found = [message.value() or b""]
    consumer.close()
    producer.begin_transaction()  # is open when the broker ends
    producer.produce("versions", b"open", partition=0)
    producer.flush(PATIENCE_S)
    return found


def test_an_earlier_commit_this_one_and_the_earlier_one_again(earlier: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    read = []
    for number, (tree, killed) in enumerate([(earlier, False), (ROOT, True), (earlier, True), (ROOT, False)]):
        with broker_of(tree, data, killed=killed) as bootstrap:
            read += work(bootstrap, number)
    assert read == [f"{number} kept".encode() for number in range(4)]
