"""`odradek users add|list|delete`, of a running broker and of a stopped one, and `odradek format --add-scram`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from odradek import Broker, location
from tests.brokers import sound_broker
from tests.command_line import Odradek

LISTENERS = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
SETTINGS = {"listeners": LISTENERS, "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}


def odradek(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = location.command(arguments)
    environment = location.environment(dict(os.environ))
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def told(*arguments: str, stdin: str = "") -> str:
    run = odradek(*arguments, stdin=stdin)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def may_log_in(broker: Broker, name: str, password: str, mechanism: str = "SCRAM-SHA-512") -> bool:
    config: dict[str, Any] = {
        "bootstrap.servers": broker.listeners["SASL_PLAINTEXT"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
        "log_level": "0",
    }
    for timeout in (2, 10):
        try:
            AdminClient(config).list_topics(timeout=timeout)
        except KafkaException:
            if "authentication failed" in broker.log():
                return False
        else:
            return True
    raise AssertionError(broker.log())


def test_users_of_a_running_broker(tmp_path: Path) -> None:
    with sound_broker(SETTINGS) as broker:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        told("users", "add", "alice", *at, stdin="geheim\n")
        both = ("-m", "SCRAM-SHA-256", "-m", "SCRAM-SHA-512", "--iterations", "5000")
        (tmp_path / "password").write_text("other\n")
        told("users", "add", "bob", *both, "--password-file", str(tmp_path / "password"), *at)
        assert told("users", "list", *at).splitlines() == [
            "alice\tSCRAM-SHA-512 (4096 iterations)",
            "bob\tSCRAM-SHA-256 (5000 iterations), SCRAM-SHA-512 (5000 iterations)",
        ]
        assert may_log_in(broker, "alice", "geheim")
        assert may_log_in(broker, "bob", "other", "SCRAM-SHA-256")
        told("users", "delete", "bob", "-m", "SCRAM-SHA-256", *at)
        told("users", "delete", "alice", *at)
        assert told("users", "list", *at) == "bob\tSCRAM-SHA-512 (5000 iterations)\n"
        assert not may_log_in(broker, "alice", "geheim")
        run = odradek("users", "delete", "alice", *at)
        assert (run.returncode, run.stderr) == (1, "Error: there is no user alice\n")
        assert "geheim" not in broker.log()


def test_a_user_that_logs_in_manages_the_others(tmp_path: Path) -> None:
    with sound_broker(security="SASL_SSL", users={"admin": "pw"}) as broker:
        config = broker.client_config("java")
        (tmp_path / "admin.properties").write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        at = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(tmp_path / "admin.properties"))
        told("users", "add", "alice", *at, stdin="geheim\n")
        assert told("users", "list", *at) == "alice\tSCRAM-SHA-512 (4096 iterations)\n"


def test_users_of_a_stopped_broker(tmp_path: Path) -> None:
    at = ("--set", f"log.dirs={tmp_path / 'data'}")
    with Broker(SETTINGS, data_dir=tmp_path / "data") as broker:
        broker.topic("kept").produce("v")
        refused = odradek("users", "add", "alice", *at, stdin="geheim\n")
        assert refused.returncode == 1
        assert "is using this directory" in refused.stderr
        assert broker.stop() == 0
        told("users", "add", "alice", *at, stdin="geheim\n")
        told("users", "add", "bob", *at, stdin="other\n")
        told("users", "delete", "bob", *at)
        assert told("users", "list", *at) == "alice\tSCRAM-SHA-512 (4096 iterations)\n"
        before = broker.log()
        broker.start()
        assert may_log_in(broker, "alice", "geheim")
        assert [record.text for record in broker.topic("kept").records()] == ["v"]
        assert '"clean": true' in broker.log()[len(before) :]
        assert not may_log_in(broker, "bob", "other")


def test_first_users_of_formatted_folders(tmp_path: Path) -> None:
    data = f"log.dirs={tmp_path / 'data'}"
    refused = odradek("users", "add", "alice", "--set", data, stdin="geheim\n")
    assert refused.returncode == 1
    assert "--add-scram" in refused.stderr
    scram = "SCRAM-SHA-512=[name=alice,password=geheim]"
    told(
        "format",
        "--cluster-id",
        "4L6g3nShT-eMCtK--X86sw",
        "--standalone",
        "--add-scram",
        scram,
        "--set",
        data,
        "--set",
        "controller.listener.names=CONTROLLER",
        "--set",
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
    )
    alice, bob = "alice\tSCRAM-SHA-512 (4096 iterations)", "bob\tSCRAM-SHA-512 (4096 iterations)"
    assert told("users", "list", "--set", data).splitlines() == [alice]
    told("users", "add", "bob", "--set", data, stdin="other\n")
    assert told("users", "list", "--set", data).splitlines() == [alice, bob]
    with Broker(SETTINGS, data_dir=tmp_path / "data") as broker:
        assert may_log_in(broker, "alice", "geheim")
        assert may_log_in(broker, "bob", "other")


def test_the_command_of_a_cluster_is_also_that_of_a_stopped_broker_and_of_a_java_clients_properties(
    tmp_path: Path,
) -> None:
    with sound_broker(security="SASL_SSL", users={"admin": "pw"}) as broker:
        config = broker.client_config("java")
        (tmp_path / "admin.properties").write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        login = ("--command-config", str(tmp_path / "admin.properties"))
        at = Odradek(broker.bootstrap_servers)
        at.told("users", "add", "alice", *login, "-m", "SCRAM-SHA-256", "-m", "SCRAM-SHA-512", stdin="geheim\n")
        at.told("users", "delete", "alice", "-m", "SCRAM-SHA-256", *login)
        assert at.told("users", "list", *login) == "alice\tSCRAM-SHA-512 (4096 iterations)\n"
        refused = at.run("users", "list", *login, "--json")
        assert (refused[0], "expected none with" in refused[2]) == (2, True)
    with Broker(SETTINGS, data_dir=tmp_path / "data") as stopped:
        stopped.stop()
        here, folder = Odradek(""), ("--set", f"log.dirs={tmp_path / 'data'}")
        (tmp_path / "password").write_text("geheim\n")
        here.told("users", "add", "bob", *folder, "--password-file", str(tmp_path / "password"), at="")
        assert here.told("users", "list", *folder, at="") == "bob\tSCRAM-SHA-512 (4096 iterations)\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("list", "--bootstrap-server", "nowhere"), "expected HOST:PORT"),
        (("list", "--bootstrap-server", "127.0.0.1:99999"), "expected HOST:PORT"),
        (("list", "--bootstrap-server", "\udcff:9092"), "expected HOST:PORT"),
        (("add", "\udcff", "--bootstrap-server", "127.0.0.1:1"), "cannot be printed"),
        (("list", "--bootstrap-server", "127.0.0.1:1", "--set", "a=b"), "are for a broker that is stopped"),
        (("add", "a", "--bootstrap-server", "127.0.0.1:1"), "the password is empty"),
        (("list", "--bootstrap-server", "127.0.0.1:1"), "no connection to 127.0.0.1:1"),
    ],
)
def test_wrong_commands_say_what_is_expected(arguments: tuple[str, ...], said: str) -> None:
    run = odradek("users", *arguments)
    assert run.returncode == 1
    assert said in run.stderr and "Traceback" not in run.stderr


@pytest.mark.parametrize("wrong", [("-t", "\udcff"), ("-t", "id", "-S", "SCRAM-SHA-256=[name=\udcff,password=x]")])
def test_format_refuses_what_is_no_text(tmp_path: Path, wrong: tuple[str, ...]) -> None:
    run = odradek("format", *wrong, "--set", f"log.dirs={tmp_path / 'data'}")
    assert (run.returncode, "Traceback" in run.stderr, run.stderr.startswith("Error: ")) == (1, False, True)
