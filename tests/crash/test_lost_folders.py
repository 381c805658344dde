"""Data folders that somebody removes, replaces or fills while the broker runs: it must notice before it loses more."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_cluster")

WITH_HTTP = {"odradek.http.port": "0"}


def produce(broker: Broker, topic: str, timeout_ms: int = 5_000, size: int = 1000) -> KafkaError | None:
    """The error of one record, None if it was acknowledged."""
    answers: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": timeout_ms})
    producer.produce(topic, b"x" * size, partition=0, on_delivery=lambda error, _: answers.append(error))
    producer.flush(30)
    return answers[0]


def create(broker: Broker, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def health(broker: Broker) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/healthz", timeout=10) as answer:
        return str(answer.read().decode())


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def rename(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replace(folder: Path) -> None:
    rename(folder)
    folder.mkdir()
    (folder / "mine.txt").write_text("somebody else's")


def remove_files_one_by_one(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def remove_the_lock(folder: Path) -> None:
    (folder / ".lock").unlink()


@pytest.mark.parametrize("deed", [remove, rename, replace, remove_files_one_by_one, remove_the_lock])
def test_a_broker_whose_data_folder_is_gone_ends_and_says_why(deed: Callable[[Path], None], tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        assert produce(broker, "t") is None
        deed(broker.data_dir)
        wait_until(lambda: not broker.running, "the broker noticed nothing")
        log = broker.log()
        assert "log directory offline" in log
        assert "the broker cannot go on" in log
        assert "Traceback" not in log
        if broker.data_dir.is_dir() and deed is not remove_the_lock:
            assert {path.name for path in broker.data_dir.iterdir()} <= {"mine.txt"}, "written to a foreign folder"
        assert broker.stop() == 1


def test_a_broker_whose_metadata_log_alone_is_gone_ends_and_says_why(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        assert produce(broker, "t") is None
        shutil.rmtree(broker.data_dir / "__cluster_metadata-0")
        wait_until(lambda: not broker.running, "the broker noticed nothing")
        assert "the broker cannot go on" in broker.log()
        assert "Traceback" not in broker.log()
        assert broker.stop() == 1


def test_the_other_folders_serve_on_when_one_is_gone(tmp_path: Path) -> None:
    folders = {"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}", **WITH_HTTP}
    with Broker(folders) as broker:
        create(broker, "t", 2)
        second = tmp_path / "two"
        (lost,) = [int(path.name[-1]) for path in second.glob("t-*")]
        shutil.rmtree(second)
        wait_until(lambda: "degraded" in health(broker), "nothing was noticed")
        assert health(broker) == f"degraded: log directory {second} is offline"
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 2_000})
        answers: dict[int, bool] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            answers[message.partition() or 0] = error is None

        for partition in (0, 1):
            producer.produce("t", b"v", partition=partition, on_delivery=delivered)
        producer.flush(30)
        assert answers == {lost: False, 1 - lost: True}


def test_a_partition_whose_folder_alone_is_gone_is_offline(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        assert produce(broker, "kept") is None
        assert produce(broker, "gone") is None
        shutil.rmtree(broker.data_dir / "gone-0")
        wait_until(lambda: "log offline" in broker.log(), "nothing was noticed")
        assert f"{broker.data_dir}/gone-0/00000000000000000000.log is gone" in broker.log()
        assert produce(broker, "gone", timeout_ms=1_500) is not None
        assert produce(broker, "kept") is None
        assert "Traceback" not in broker.log()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 20 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_is_said_once_shown_and_over_when_there_is_room(small_disk: Path) -> None:
    with Broker(WITH_HTTP, data_dir=small_disk / "data") as broker:
        assert produce(broker, "t") is None
        ballast = small_disk / "ballast"
        _fill(ballast)
        assert produce(broker, "t", timeout_ms=3_000, size=100_000) is not None
        lines = [line for line in broker.log().splitlines() if "out of resources" in line]
        assert len(lines) == 1, broker.log()
        assert str(broker.data_dir) in lines[0]
        assert "no room is left on the device" in lines[0]
        assert health(broker) == f"degraded: {broker.data_dir}: no room is left on the device"
        with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/metrics", timeout=10) as answer:
            assert "odradek_out_of_resources{" in answer.read().decode()
        ballast.unlink()
        wait_until(lambda: "resources are back" in broker.log(), "the end was not noticed")
        assert health(broker) == "ok"
        assert produce(broker, "t") is None
        assert "Traceback" not in broker.log()
        assert broker.stop() == 0


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


def test_an_unmounted_folder_ends_the_broker(small_disk: Path) -> None:
    with Broker(data_dir=small_disk / "data") as broker:
        assert produce(broker, "t") is None
        subprocess.run(["umount", "--lazy", small_disk], check=True)
        wait_until(lambda: not broker.running, "the broker noticed nothing")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", small_disk], check=True)  # the fixture unmounts it
        assert "Traceback" not in broker.log()


FEW_DESCRIPTORS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
from odradek import Broker
from tests.waiting import wait_until

with Broker({"odradek.http.port": "0"}) as broker:
    print(broker.bootstrap_servers, broker.http_port, broker.log_path, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def starved() -> Iterator[tuple[str, Path, int]]:
    """The address, the log and the HTTP port of a broker that may open 200 files."""
    command = [sys.executable, "-c", FEW_DESCRIPTORS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        bootstrap, http_port, log_path = owner.stdout.readline().split()
        yield bootstrap, Path(log_path), int(http_port)
        owner.stdin.close()


def test_connections_that_find_no_descriptor_are_said(starved: tuple[str, Path, int]) -> None:
    bootstrap, log, _ = starved
    host, port = bootstrap.split(":")
    connections = [socket.create_connection((host, int(port))) for _ in range(300)]
    wait_until(lambda: "out of resources" in log.read_text(), "nothing was said")
    assert "too many files are open" in log.read_text()
    assert "ulimit -n" in log.read_text()
    for connection in connections:
        connection.close()
    wait_until(lambda: "resources are back" in log.read_text(), "the end was not noticed")


def test_half_requests_and_idle_clients_leave_descriptors_to_clients_and_to_health(
    starved: tuple[str, Path, int],
) -> None:
    bootstrap, log, http_port = starved
    host, port = bootstrap.split(":")
    halves = [socket.create_connection((host, http_port)) for _ in range(300)]
    for half in halves:
        with suppress(OSError):  # closed already
            half.sendall(b"GET / HTTP/1.1\r\nHost:")
    assert AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).brokers
    idle = [socket.create_connection((host, int(port))) for _ in range(300)]
    wait_until(lambda: "out of resources" in log.read_text(), "nothing was said")
    with urllib.request.urlopen(f"http://{host}:{http_port}/healthz", timeout=30) as answer:
        assert b"too many files are open" in answer.read()
    for one in (*halves, *idle):
        one.close()


def test_more_partitions_in_use_than_descriptors_are_said(starved: tuple[str, Path, int]) -> None:
    bootstrap, log, _ = starved
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", 300, 1)])["t"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 5_000})
    for partition in range(300):
        producer.produce("t", b"v", partition=partition)
    producer.flush(30)
    assert "too many files are open" in log.read_text()
    assert log.read_text().count("out of resources") <= 2, "one line for the folder, one for the process"
