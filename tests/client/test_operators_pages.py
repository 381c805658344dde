"""Pages for operators (operations, backup, cluster): their commands, typed by a reader in an empty folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.pages import Shell, block, blocks
from tests.ports import free_ports

pytestmark = pytest.mark.usefixtures("own_cluster")

OPERATIONS, BACKUP, CLUSTER = (f"docs/{name}.md" for name in ("operations", "backup-and-upgrade", "cluster"))
SETTINGS = "listeners=PLAINTEXT://127.0.0.1:9092\nlog.dirs=data\nodradek.http.port=9404\n"
"""A first server.properties."""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    kafka, http, control = free_ports(3)
    found = Shell(
        tmp_path,
        {
            "127.0.0.1:9092": f"127.0.0.1:{kafka}",
            "127.0.0.1:9404": f"127.0.0.1:{http}",
            "http.port=9404": f"http.port={http}",
            "127.0.0.1:9405": f"127.0.0.1:{control}",
            "/backups/": f"{tmp_path}/backups/",
            "/data/": f"{tmp_path}/data/",
        },
    )
    found.write("server.properties", SETTINGS)
    return found


def test_settings_come_from_three_sources(shell: Shell) -> None:
    for printed in block(OPERATIONS, "num.partitions").splitlines():
        with shell.serving(printed):
            admin = AdminClient({"bootstrap.servers": shell.text("127.0.0.1:9092")})
            broker = ConfigResource(ConfigResource.Type.BROKER, "1")
            (found,) = admin.describe_configs([broker]).values()
            assert found.result(60)["num.partitions"].value == "6"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_broker_is_looked_at_while_it_runs_and_its_folder_after_that(shell: Shell) -> None:
    with shell.serving("odradek serve --config server.properties"):
        shell.run("odradek produce orders a b --create -b 127.0.0.1:9092")
        shell.run(block(OPERATIONS, "curl -X PUT").replace("curl", "curl -sS --fail-with-body"))
        level = shell.run("curl -sS --fail-with-body http://127.0.0.1:9404/admin/loggers/broker.network")
        assert json.loads(level) == {"level": "DEBUG"}
        checked = shell.run(block(OPERATIONS, "odradek doctor"))
        assert "answers, and lets this client in" in checked
        assert "NOT_ENOUGH_REPLICAS, code 19" in checked
        assert "log.dirs, of a broker" in checked
        explained = shell.run(f"! {block(OPERATIONS, 'odradek explain group')}")
        assert "there is no group billing" in explained
    looked_at = shell.run(block(OPERATIONS, "odradek log dump"))
    assert "value=a" in looked_at
    assert "0 damaged" in looked_at
    assert "nothing to repair" in looked_at
    assert "TopicRecord" in looked_at


def test_a_folder_is_formatted(shell: Shell) -> None:
    shell.run(block(OPERATIONS, "odradek format"))
    assert "cluster.id=k2hLyQu2SZu2ZLwXKgnjPw" in (shell.folder / "data" / "meta.properties").read_text()
    with shell.serving("odradek serve --config server.properties"):
        admin = AdminClient({"bootstrap.servers": shell.text("127.0.0.1:9092")})
        assert admin.describe_cluster().result(60).cluster_id == "k2hLyQu2SZu2ZLwXKgnjPw"


def test_a_backup_is_made_verified_and_gone_back_to(shell: Shell) -> None:
    here = "KAFKA_LISTENERS=PLAINTEXT://127.0.0.1:9092 ODRADEK_HTTP_PORT=-1 "
    serve, create, new, restore = blocks(BACKUP)
    with shell.serving(here + serve):
        shell.run("odradek produce orders a --create -b 127.0.0.1:9092")
        assert "0 damaged" in shell.run(create)
    with shell.serving(here + serve.rstrip() + " --control 127.0.0.1:9405"):
        shell.run("odradek topics delete orders -b 127.0.0.1:9092")
        shell.run(restore)
        assert shell.run("odradek consume orders -e -b 127.0.0.1:9092") == "a\n"
    with shell.serving(here + new):
        assert shell.run("odradek consume orders -e -b 127.0.0.1:9092") == "a\n"


@pytest.mark.torture
def test_three_brokers_of_one_command(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"127.0.0.1:9092": "127.0.0.1:0"})
    with shell.serving(block(CLUSTER, "--brokers 3")):
        nodes = json.loads((tmp_path / "ready").read_text())["nodes"]
        address = nodes[0]["listeners"]["PLAINTEXT"]
        assert sorted(AdminClient({"bootstrap.servers": address}).list_topics(timeout=60).brokers) == [1, 2, 3]
    assert (tmp_path / "data" / "node-1.log").exists()
    assert (tmp_path / "data" / "controller").is_dir()


def test_a_controller_and_its_broker(tmp_path: Path) -> None:
    """The controller's settings and the broker's, each in a folder of its own."""
    controller, broker = free_ports(2)
    shells: list[Shell] = []
    for words in ("process.roles=controller", "node.id=1\n"):
        folder = tmp_path / f"node-{len(shells)}"
        folder.mkdir()
        instead = {
            "//:9093": f"//127.0.0.1:{controller}",
            "controller:9093": f"127.0.0.1:{controller}",
            "//:9092": f"//127.0.0.1:{broker}",
            "broker1:9092": f"127.0.0.1:{broker}",
            "/var/lib/": f"{folder}/",
            "port=9464": "port=0",
        }
        shells.append(Shell(folder, instead))
        shells[-1].write("server.properties", block(CLUSTER, words))
    serve = "ODRADEK_HTTP_PORT=-1 odradek serve --config server.properties"
    with shells[0].serving(serve), shells[1].serving(serve):
        known = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker}"}).list_topics(timeout=60).brokers
        assert list(known) == [1]
