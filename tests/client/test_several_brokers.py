"""`odradek serve --brokers 3`, as a process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.usefixtures("own_cluster")

SECONDS = 120


def serve(*arguments: str, environment: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "odradek", "serve", "--profile", "test", *arguments]
    environ = {**os.environ, **environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0, env=environ)


def until_ready(process: subprocess.Popen[bytes], path: Path) -> list[dict[str, object]]:
    """The ready lines of the brokers."""
    deadline = time.monotonic() + SECONDS
    while not (path.exists() and path.read_text().endswith("\n")):
        assert process.poll() is None, process.stdout and process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    nodes: list[dict[str, object]] = json.loads(path.read_text())["nodes"]
    return nodes


def read_until(process: subprocess.Popen[bytes], words: str) -> str:
    """What the process has said up to the line with these words."""
    assert process.stdout is not None
    lines: list[str] = []
    while words not in "".join(lines[-1:]):
        lines.append(process.stdout.readline().decode())
        assert lines[-1], lines
    return "".join(lines)


def test_three_brokers_start_together_serve_and_end_together(tmp_path: Path) -> None:
    ready, settings = tmp_path / "ready", ["--set", "listeners=PLAINTEXT://127.0.0.1:0"]
    settings += ["--set", f"log.dirs={tmp_path / 'data'}", "--set", "odradek.http.port=-1"]
    settings += ["--set", "broker.session.timeout.ms=3000", "--set", "broker.heartbeat.interval.ms=500"]
    process = serve("--brokers", "3", *settings, "--ready-file", str(ready))
    try:
        nodes = until_ready(process, ready)
        addresses = [node["listeners"]["PLAINTEXT"] for node in nodes]  # type: ignore[index]
        known = AdminClient({"bootstrap.servers": addresses[0]}).list_topics(timeout=30).brokers
        assert {node_id: f"{one.host}:{one.port}" for node_id, one in known.items()} == dict(enumerate(addresses, 1))
        producer = Producer({"bootstrap.servers": ",".join(addresses)})
        producer.produce("made-on-use", b"x")
        assert producer.flush(SECONDS) == 0
        os.kill(int(str(nodes[0]["pid"])), signal.SIGKILL)
        producer.produce("made-on-use", b"y")
        assert producer.flush(SECONDS) == 0
        os.kill(json.loads(ready.read_text())["controller"]["pid"], signal.SIGKILL)
        producer.produce("made-on-use", b"z")
        assert producer.flush(SECONDS) == 0  # the brokers lead what they lead
        text = read_until(process, "a node has died; nothing in the cluster can change")
        assert "a node has died; the others go on" in text
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 1  # some have died
    assert all(address in text for address in addresses)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == sorted(
        name for node in ("controller", "node-1", "node-2", "node-3") for name in (node, f"{node}.log")
    )
    for node in nodes:
        with pytest.raises(ProcessLookupError):
            os.kill(int(str(node["pid"])), 0)


def test_a_clean_stop_has_the_status_0_and_a_wrong_setting_is_said_at_once(tmp_path: Path) -> None:
    ready, settings = tmp_path / "ready", ["--set", f"log.dirs={tmp_path / 'data'}", "--set", "odradek.http.port=-1"]
    settings += ["--set", "listeners=PLAINTEXT://127.0.0.1:0"]
    process = serve("--brokers", "2", *settings, "--ready-file", str(ready))
    try:
        until_ready(process, ready)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0, said.decode()
    wrong = serve("--brokers", "2", *settings, "--set", "node.id=3")
    said, _ = wrong.communicate(timeout=SECONDS)
    assert wrong.returncode == 1
    assert b"node.id: expected not to be set with --brokers" in said


def test_systemd_knows_the_nodes_as_one_service(tmp_path: Path) -> None:
    settings = ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path / 'data'}", "odradek.http.port=-1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(SECONDS)
        of_systemd = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": str(SECONDS * 1_000_000)}
        ready = tmp_path / "ready"
        arguments = [part for setting in settings for part in ("--set", setting)]
        process = serve("--brokers", "2", *arguments, "--ready-file", str(ready), environment=of_systemd)
        try:
            while (first := manager.recv(4096).decode()).startswith("EXTEND_TIMEOUT_USEC="):
                pass
            nodes = until_ready(process, ready)
            sign_of_life = manager.recv(4096).decode()
            os.kill(int(str(nodes[1]["pid"])), signal.SIGKILL)
            of_death = manager.recv(4096).decode()
            process.terminate()
            last = manager.recv(4096).decode()
            process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    addresses = [str(node["listeners"]["PLAINTEXT"]) for node in nodes]  # type: ignore[index]
    # A node that knew the manager would have said before that it serves.
    assert first == f"READY=1\nSTATUS=2 of 2 brokers serve: {', '.join(addresses)}"
    assert sign_of_life == "WATCHDOG=1"
    assert of_death == f"STATUS=1 of 2 brokers serve: {addresses[0]}; broker 2 has died"
    assert last == "STOPPING=1\nSTATUS=stopping"
