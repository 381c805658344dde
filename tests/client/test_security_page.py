"""The examples of docs/security.md work as they are printed: the broker's settings, and the client's after them."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from cryptography import x509
from cryptography.x509.oid import NameOID
from trustme import CA

from odradek import Broker
from tests.brokers import sound_broker
from tests.certificates import pair, pair_of
from tests.pages import ROOT, blocks

PAGE = "docs/security.md"
EXAMPLES = [pair for pair in pairwise(blocks(PAGE, "properties")) if pair[0].startswith("listeners=")]
CLIENT = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "app")])


def settings_of(block: str, folder: Path) -> dict[str, str]:
    """The settings of a block; its files are in the folder."""
    pairs = dict(line.split("=", 1) for line in block.splitlines())
    files = {name for name, value in pairs.items() if value.endswith(".pem") or value == "users"}
    return {name: str(folder / value) if name in files else value for name, value in pairs.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ca = CA()
    (tmp_path / "broker.pem").write_bytes(pair(ca).pem)
    (tmp_path / "ca.pem").write_bytes(ca.cert_pem.bytes())
    (tmp_path / "client.pem").write_bytes(pair_of(ca, CLIENT).pem)
    (tmp_path / "users").write_text("app:app-secret\n")
    return tmp_path


def add_user(folder: Path) -> None:
    """As the page says, while the broker is stopped."""
    with Broker(data_dir=folder / "data"):
        pass
    (command,) = re.findall(r"^odradek (users add .*)$", (ROOT / PAGE).read_text(), re.MULTILINE)
    run = subprocess.run(
        [sys.executable, "-m", "odradek", *command.replace("=data", f"={folder / 'data'}").split()],
        input="app-secret\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(("broker_block", "client_block"), EXAMPLES)
def test_a_client_comes_in(broker_block: str, client_block: str, folder: Path) -> None:
    if "SCRAM" in broker_block:
        add_user(folder)
    settings = settings_of(broker_block, folder) | {"log.dirs": str(folder / "data")}
    with sound_broker(settings) as broker:
        producer = Producer(settings_of(client_block, folder) | {"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("t", b"x")
        assert producer.flush(30) == 0


def test_there_is_an_example_of_each() -> None:
    assert len(EXAMPLES) == 4


def test_the_two_lines_at_the_top(tmp_path: Path) -> None:
    users, run = blocks(PAGE, "sh")[0].splitlines()
    subprocess.run(["sh", "-c", users], cwd=tmp_path, check=True, timeout=10)
    settings = dict(setting.split("=", 1) for setting in re.findall(r"--set (\S+=[^\s\"]+)", run))
    assert settings.pop("listeners") == "SASL_SSL://127.0.0.1:9092"
    chosen = {name: str(tmp_path / value) for name, value in settings.items()}
    with sound_broker({"listeners": "SASL_SSL://127.0.0.1:0", **chosen}) as broker:
        config = {"bootstrap.servers": broker.bootstrap_servers, "ssl.ca.location": str(tmp_path / "tls" / "ca.pem")}
        login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "app", "sasl.password": "app-secret"}
        producer = Producer(config | login | {"security.protocol": "sasl_ssl"})
        producer.produce("t", b"x")
        assert producer.flush(30) == 0
