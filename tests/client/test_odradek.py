"""The `odradek` package as a user's test suite uses it."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from odradek import Broker, BrokerStartError, __version__
from tests.client.raw import RawConnection

pytestmark = pytest.mark.usefixtures("own_cluster")

USERS_TEST = """
import socket

def test_one(odradek_broker, odradek_bootstrap):
    assert odradek_broker.running
    host, port = odradek_bootstrap.split(":")
    socket.create_connection((host, int(port))).close()

def test_two(odradek_broker):
    assert odradek_broker.running
"""


def test_context_manager_serves_and_leaves_nothing() -> None:
    with Broker() as broker:
        workplace = broker.data_dir.parent
        with RawConnection(broker.bootstrap_servers) as connection:
            connection.ask()
    assert not broker.running
    assert not workplace.exists()


async def test_async_context_manager() -> None:
    async with Broker() as broker, AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        assert (await producer.send_and_wait("t", b"hello", partition=0)).offset == 0
    assert not broker.running


def test_restart_and_kill_keep_port_and_data() -> None:
    with Broker() as broker:
        address, pid = broker.bootstrap_servers, broker.pid
        broker.restart()
        broker.kill()
        assert not broker.running
        broker.start()
        assert broker.bootstrap_servers == address
        assert broker.pid != pid


def test_a_restart_binds_what_it_bound_before_and_not_what_it_advertises() -> None:
    with Broker({"advertised.listeners": "PLAINTEXT://broker.example:19092"}) as broker:
        broker.restart()
        assert broker.running
        assert broker.bootstrap_servers == "broker.example:19092"


def test_given_data_folder_is_kept(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "kept"):
        pass
    assert (tmp_path / "kept" / "meta.properties").exists()


def test_settings_reach_the_broker() -> None:
    with Broker({"odradek.http.port": 0, "num.partitions": 3}) as broker:
        with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/healthz", timeout=10) as answer:
            assert answer.status == 200
        with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/metrics", timeout=10) as answer:
            assert b"kafka_server_brokertopicmetrics_messagesin_total" in answer.read()


def test_variables_of_the_caller_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_LOG_SEGMENT_BYTES", "ODRADEK_LOG_LEVEL", "CLUSTER_ID"):
        monkeypatch.setenv(name, "nonsense")
    with Broker() as broker:
        assert broker.running
        assert "nonsense" not in broker.log()


def test_failed_start_shows_the_log_and_leaves_no_process() -> None:
    broker = Broker({"broker.id": "x"})
    with pytest.raises(BrokerStartError, match=r"(?s)ended before it was ready.*broker\.id"):
        broker.start()
    assert not broker.running


def test_a_start_that_takes_too_long_says_so_and_leaves_no_process() -> None:
    broker = Broker(start_timeout=0.001)
    with pytest.raises(
        BrokerStartError, match=r"within 0\.001 s; it was given \d+\.\d\d s of CPU .* busy: start_timeout"
    ):
        broker.start()
    assert not broker.running


def test_plugin_gives_one_broker_for_the_session(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nodradek_settings =\n  num.partitions=2\n")
    command = [sys.executable, "-I", "-m", "pytest", "-q", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "2 passed" in run.stdout, run.stdout + run.stderr


def test_console_script_tells_its_version() -> None:
    command = [sys.executable, "-I", "-m", "odradek", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == f"odradek {__version__}\n"


def test_importing_odradek_imports_nothing_of_the_broker_and_no_library() -> None:
    program = (
        "import sys, odradek; ours = {'broker', 'storage', 'protocol', 'coordinator', 'timing'};"
        "print(sorted((ours | {'kio', 'uvloop', 'aiohttp', 'click'}) & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "[]\n"
