"""Environments of compose files as people write them for other images of Kafka, given to the image's start script.

Ports of this machine stand for those in the files, and 127.0.0.1 for names of containers, which do not resolve here.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.ports import free_ports

DOCKER = Path(__file__).parents[2] / "docker"
PATIENCE_S = 30.0

CONFLUENT = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:{inner},PLAINTEXT_HOST://localhost:{outer}",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
}

ENVIRONMENTS: dict[str, dict[str, str]] = {
    "nothing": {},
    "confluent, listeners given": CONFLUENT
    | {"KAFKA_LISTENERS": "PLAINTEXT://:{inner},CONTROLLER://:{spare},PLAINTEXT_HOST://0.0.0.0:{outer}"},
    "confluent with zookeeper, advertised alone": {
        "KAFKA_BROKER_ID": "1",
        "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:{inner},PLAINTEXT_HOST://localhost:{outer}",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
    },
    "one advertised": {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:{outer}"},
    "apache, one node": {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:{outer},CONTROLLER://0.0.0.0:{spare}",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:{outer}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:{spare}",
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_HEAP_OPTS": "-Xmx512m",
    },
    "bitnami": {
        "KAFKA_ENABLE_KRAFT": "yes",
        "KAFKA_KRAFT_CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
        "KAFKA_CFG_NODE_ID": "0",
        "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
        "KAFKA_CFG_LISTENERS": "PLAINTEXT://:{outer},CONTROLLER://:{spare}",
        "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:{outer}",
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:{spare}",
        "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "ALLOW_PLAINTEXT_LISTENER": "yes",
    },
    "bitnami, internal and external": {
        "KAFKA_CFG_NODE_ID": "0",
        "KAFKA_CFG_LISTENERS": "PLAINTEXT://:{inner},CONTROLLER://:{spare},EXTERNAL://:{outer}",
        "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:{inner},EXTERNAL://localhost:{outer}",
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    },
    "wurstmeister": {
        "KAFKA_ADVERTISED_LISTENERS": "INSIDE://127.0.0.1:{inner},OUTSIDE://localhost:{outer}",
        "KAFKA_LISTENERS": "INSIDE://0.0.0.0:{inner},OUTSIDE://0.0.0.0:{outer}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
        "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        "KAFKA_CREATE_TOPICS": "orders:3:1,compacted:1:1:compact",
    },
    "empty values": {
        "KAFKA_LISTENERS": "",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:{outer}",
        "KAFKA_LOG_RETENTION_MS": "",
        "KAFKA_OPTS": "",
    },
    "service links of Kubernetes": {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:{outer}",
        "KAFKA_SERVICE_HOST": "10.0.0.1",
        "KAFKA_SERVICE_PORT": "9092",
        "KAFKA_SERVICE_PORT_CLIENTS": "9092",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "ODRADEK_HTTP_PORT": "tcp://10.0.0.1:9404",
        "ODRADEK_HTTP_SERVICE_HOST": "10.0.0.1",
        "ODRADEK_HTTP_PORT_9404_TCP_PROTO": "tcp",
    },
}


@contextmanager
def container(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], Path, Path]]:
    """The image's start script in a folder laid out as the image: its process, the ready file and the log."""
    shutil.copytree(DOCKER, folder / "image")
    (folder / "image" / "bin").mkdir()
    (folder / "image" / "bin" / "odradek").symlink_to(Path(sys.executable).with_name("odradek"))
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "ODRADEK_", "CLUSTER_"))
    }
    given: dict[str, str] = kept | {"TMPDIR": str(folder), "KAFKA_LOG_DIRS": str(folder / "data")} | dict(environment)
    log = folder / "log"
    with log.open("wb") as stream:
        child = subprocess.Popen([folder / "image" / "serve.sh"], env=given, stdout=stream, stderr=stream)
        try:
            yield child, folder / "odradek-ready.json", log
        finally:
            child.terminate()
            child.wait(30)


def until_ready(child: subprocess.Popen[bytes], ready: Path, log: Path) -> dict[str, object]:
    deadline = time.monotonic() + PATIENCE_S
    while not (ready.exists() and ready.read_text().endswith("\n")):
        assert child.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
    told: dict[str, object] = json.loads(ready.read_text())
    return told


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_clients_connect_where_the_compose_file_says(name: str, tmp_path: Path) -> None:
    inner, outer, spare = free_ports(3)
    if name == "nothing":
        outer = 9092
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", outer)) == 0:
                pytest.skip("port 9092 is in use, which the image listens on when nothing is said")
    ports = {"inner": inner, "outer": outer, "spare": spare}
    environment = {key: value.format(**ports) for key, value in ENVIRONMENTS[name].items()}
    with container(tmp_path, environment) as (child, ready, log):
        told = until_ready(child, ready, log)
        for address in (f"localhost:{outer}", f"127.0.0.1:{inner}"):
            if name == "nothing" or str(inner) in "".join(environment.values()) or str(outer) in address:
                found = AdminClient({"bootstrap.servers": address}).list_topics(timeout=15)
                (broker,) = found.brokers.values()
                assert f"{broker.host}:{broker.port}" == address
                if str(inner) not in "".join(environment.values()):
                    break
        if "KAFKA_CREATE_TOPICS" in environment:
            assert {topic: len(one.partitions) for topic, one in found.topics.items()} == {"orders": 3, "compacted": 1}
        if "KAFKA_SERVICE_HOST" in environment:
            (line,) = [line for line in log.read_text().splitlines() if "enableServiceLinks" in line]
            assert "ODRADEK_HTTP_PORT" in line
        assert told["ready"]
        assert "Traceback" not in log.read_text()


def healthcheck(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(DOCKER / "healthcheck.py")]
    given = {"TMPDIR": str(folder), "PATH": os.environ["PATH"], **environment}
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    "settings",
    [{}, {"KAFKA_ODRADEK_HTTP_PORT": "-1"}, {"KAFKA_ODRADEK_HTTP_PORT": "0", "KAFKA_ODRADEK_HTTP_HOST": "127.0.0.1"}],
    ids=["default", "http off", "another address"],
)
def test_the_health_check_asks_the_address_that_is_configured_and_no_proxy(
    settings: dict[str, str], tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    assert "has not said yet" in healthcheck(tmp_path).stderr
    environment = {"KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}", **settings}
    with container(tmp_path, environment) as (child, ready, log):
        until_ready(child, ready, log)
        proxied = healthcheck(tmp_path, http_proxy="http://127.0.0.1:1", HTTP_PROXY="http://127.0.0.1:1")
        assert (proxied.returncode, proxied.stderr) == (0, "")
        child.kill()
        child.wait()
        assert "no answer from the broker" in healthcheck(tmp_path).stderr


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm")
def test_the_health_check_needs_no_temporary_folder_that_can_be_written(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    missing = str(tmp_path / "missing")
    environment = {"KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}", "TMPDIR": missing}
    ready = Path("/dev/shm/odradek-ready.json")
    with container(tmp_path, environment) as (child, _, log):
        try:
            until_ready(child, ready, log)
            found = healthcheck(tmp_path, TMPDIR=missing)
            assert (found.returncode, found.stderr) == (0, "")
        finally:
            ready.unlink(missing_ok=True)


def test_a_second_broker_on_a_machine_takes_a_free_http_port_and_says_so(tmp_path: Path) -> None:
    def started(number: int) -> dict[str, str]:
        (port,) = free_ports(1)
        return {"KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}", "KAFKA_NODE_ID": str(number)}

    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
    with (
        container(tmp_path / "1", started(1)) as (first, ready, log),
        container(tmp_path / "2", started(2)) as (second, second_ready, second_log),
    ):
        ports = {until_ready(first, ready, log)["http"], until_ready(second, second_ready, second_log)["http"]}
        assert len(ports) == 2
        logs = log.read_text() + second_log.read_text()
        assert "http port in use, another one taken" in logs
        assert "odradek.http.port" in logs


def test_files_of_the_container_are_its_groups_too(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    topics = {"KAFKA_CREATE_TOPICS": "t:1:1"}
    with container(tmp_path, {"KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}"} | topics) as (
        child,
        ready,
        log,
    ):
        until_ready(child, ready, log)
    for path in (tmp_path / "data").rglob("*"):
        assert path.stat().st_mode & 0o070 == 0o070 if path.is_dir() else path.stat().st_mode & 0o060 == 0o060, path
