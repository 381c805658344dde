"""`odradek explain`, `odradek doctor` and `odradek backup`."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek import Broker
from odradek.cli import kafka_python
from odradek.cli.main import odradek as commands
from tests.brokers import sound_broker
from tests.command_line import Odradek

HERE = Odradek("")
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def test_an_error_and_a_setting_are_explained() -> None:
    text = HERE.told("explain", "error", "NOT_LEADER_OR_FOLLOWER", at="")
    assert text.startswith("NOT_LEADER_OR_FOLLOWER, code 6\n")
    assert "may try again" in text
    assert HERE.told("explain", "error", "6", at="") == text
    assert "will get the same answer" in HERE.told("explain", "error", "topic_already_exists", at="")
    assert "did you mean NOT_LEADER_OR_FOLLOWER?" in HERE.run("explain", "error", "NOT_LEADER", at="")[2]
    setting = HERE.told("explain", "setting", "retention.ms", at="")
    assert setting.startswith("retention.ms, of a topic\n")
    assert "log.retention.ms" in setting
    assert "did you mean num.partitions?" in HERE.run("explain", "setting", "num.partition", at="")[2]
    about = json.loads(HERE.told("explain", "error", "6", "--json", at=""))
    assert (about["error"], about["code"], about["retriable"]) == ("NOT_LEADER_OR_FOLLOWER", 6, True)
    about = json.loads(HERE.told("explain", "setting", "retention.ms", "--json", at=""))
    assert about["topic"]["default"] == "604800000"
    assert HERE.run("explain", "error", "--", "-1", at="")[0] == 0


def test_a_topic_is_explained_by_name() -> None:
    with Broker() as broker:
        broker.topic("orders", partitions=1)
        status, out, error = HERE.run("explain", "topic", "orders", "--control", broker.control.url, at="")
    assert out.startswith("topic orders"), error
    assert status in (0, 1)


def test_explain_asks_the_broker_over_its_listener_and_without_the_right_what_a_client_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with sound_broker(AUTHORIZED) as broker:
        odradek = Odradek(broker.bootstrap_servers)
        odradek.told("produce", "orders", "a", "b", "--create")
        odradek.told("consume", "orders", "-e", "-g", "billing")
        status, out, _ = odradek.run("explain", "group", "billing")
        assert (status, out.splitlines()[0]) == (1, "group billing")
        assert "members leave when they are closed" in out  # a broker of ours says more than any Kafka tells
        assert odradek.told("explain", "topic", "orders").startswith("topic orders\n")
        monkeypatch.setitem(kafka_python.PythonAdmin.DEFAULT_CONFIG, "client_software_name", "kafka-python")
        as_kafka = ["-b", broker.bootstrap_servers]  # it lists for others what Kafka lists
        told = CliRunner().invoke(commands, ["explain", "topic", "orders", *as_kafka])
        assert "the broker does not explain anything itself" in told.output
        assert "topic orders has records (orders-0: 0 to 2)" in told.output
        told = CliRunner().invoke(commands, ["explain", "transaction", "pay", *as_kafka])
        assert "there is no transactional id pay" in told.output
        told = CliRunner().invoke(commands, ["backup", "create", "b", *as_kafka])
        assert (told.exit_code, "makes no backups for its clients" in told.output) == (1, True)
        odradek.told("acls", "add", "--principal", "User:operator", "--operation", "alter", "--cluster")
        status, out, _ = odradek.run("explain", "group", "billing", "--json")
        found = {one["rule"]: one for one in json.loads(out)}
        assert (status, "group_is_empty" in found) == (1, True)
        assert "who has ALTER on the cluster" in found["seen_by_a_client"]["text"]
        status, _, error = odradek.run("backup", "create", "b")
        assert (status, "CLUSTER_AUTHORIZATION_FAILED" in error) == (1, True)


def test_a_backup_is_made_over_the_listener_by_a_user_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    with sound_broker({"odradek.backup.folder": str(folder)}, "SASL_SSL", {"app": "secret"}) as broker:
        config = broker.client_config("confluent", user="app")
        named = [f"{name}={value}" for name, value in config.items() if name.startswith(("security", "sasl", "ssl"))]
        odradek, login = Odradek(broker.bootstrap_servers), [word for one in named for word in ("-X", one)]
        odradek.told("produce", "kept", "a", "--create", *login)
        assert odradek.told("backup", "create", "monday", *login).startswith(f"backup {folder}/monday: ")
        status, _, error = odradek.run("backup", "create", "../elsewhere", *login)
        assert (status, f"a folder in {folder}" in error) == (1, True)
    assert "0 damaged" in HERE.told("backup", "verify", str(folder / "monday"), at="")
    assert [one.name for one in tmp_path.iterdir()] == ["backups"]


def test_the_doctor_looks_at_this_machine(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = (f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={tmp_path}/new")
        arguments = [word for setting in settings for word in ("--set", setting)]
        found = json.loads(HERE.told("doctor", *arguments, "--json", at=""))
    levels = {one["subject"]: one["level"] for one in found}
    assert levels[f"PLAINTEXT://127.0.0.1:{port}"] == "warning"
    assert levels["clock"] == "ok"
    assert not (tmp_path / "new").exists()
    status, out, _ = HERE.run("doctor", "--set", f"log.dirs={tmp_path}/file/below", at="")
    assert (status, "is a file" in out) == (1, True)
    status, out, _ = HERE.run("doctor", "--set", "num.partitions=x", at="")
    assert (status, "num.partitions" in out) == (1, True)


def test_the_doctor_looks_at_a_cluster() -> None:
    with Broker() as broker:
        assert "advertised address 127.0.0.1" in Odradek(broker.bootstrap_servers).told("doctor")
    settings = {"advertised.listeners": "PLAINTEXT://127.0.0.1:1", "listeners": "PLAINTEXT://127.0.0.1:0"}
    with Broker(settings) as broker:
        bound = broker.log().rpartition('"listening"')[0].rpartition('"port": ')[2].partition(",")[0]
        status, _, error = Odradek(f"127.0.0.1:{bound}").run("doctor", "--timeout", "5")
    assert status == 1
    assert "127.0.0.1:1" in error


def test_a_backup_is_made_verified_and_restored(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    other = tmp_path / "other"
    with Broker() as broker:
        topic = broker.topic("kept", partitions=1)
        topic.produce("before")
        at = ("--control", broker.control.url)
        made = json.loads(HERE.told("backup", "create", str(backup), *at, "--json", at=""))
        assert made[0]["backup"] == str(backup) and made[0]["bytes"] > 0
        topic.produce("after")
        assert "0 damaged" in HERE.told("backup", "verify", str(backup), at="")
        HERE.told("backup", "restore", str(backup), *at, at="")
        for word, old in (("create", "save"), ("restore", "load")):  # as the first releases called it
            assert str(other) in HERE.told("snapshot", old, str(other), *at, at=""), word
        assert [record.value for record in broker.topic("kept").records()] == [b"before"]
        status, _, error = HERE.run("backup", "create", str(backup), *at, at="")
        assert (status, "exists already" in error) == (1, True)
    with Broker({"odradek.snapshot": str(backup)}) as new:
        assert [record.value for record in new.topic("kept").records()] == [b"before"]


@pytest.mark.parametrize("damage", ["cut", "removed", "changed"])
def test_damage_of_a_backup_is_found(tmp_path: Path, damage: str) -> None:
    backup = tmp_path / "backup"
    with Broker() as broker:
        broker.topic("kept", partitions=1).produce("before")
        broker.snapshot(backup)
    log = backup / "0" / "kept-0" / f"{0:020}.log"
    data = log.read_bytes()
    if damage == "removed":
        log.unlink()
    else:
        log.write_bytes(data[:-1] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    status, out, error = HERE.run("backup", "verify", str(backup), at="")
    assert status == 1
    assert f"{0:020}.log" in out + error
