"""What a new user gets wrong: each message says what it is, and what to do."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from odradek import Broker

pytestmark = pytest.mark.usefixtures("own_cluster")


def told(*arguments: str) -> str:
    """What a command that fails says."""
    ran = subprocess.run(
        [sys.executable, "-I", "-m", "odradek", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode != 0, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout + ran.stderr


def serve(*settings: str) -> str:
    given = ["listeners=PLAINTEXT://127.0.0.1:0", "odradek.http.port=-1", *settings]
    return told("serve", *(word for one in given for word in ("--set", one)))


@pytest.mark.parametrize("second", ["{0}", "{0}/", "{0}/../a", "{1}"], ids=["same", "slash", "dots", "link"])
def test_the_same_folder_twice_in_log_dirs(second: str, tmp_path: Path) -> None:
    first, link = tmp_path / "a", tmp_path / "link"
    first.mkdir()
    link.symlink_to(first)
    other = second.format(first, link)
    assert f"log.dirs has the same folder twice: {first} and {other}." in serve(f"log.dirs={first},{other}")


def test_a_file_in_log_dirs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert f"{tmp_path}/file is a file, and log.dirs names folders." in serve(f"log.dirs={tmp_path}/file")


def test_the_http_port_is_a_listeners(tmp_path: Path) -> None:
    shown = serve("listeners=PLAINTEXT://127.0.0.1:45999", "odradek.http.port=45999", f"log.dirs={tmp_path}")
    assert "odradek.http.port = 45999: expected another port than that of the listener PLAINTEXT" in shown


def test_every_address_without_one_to_advertise(tmp_path: Path) -> None:
    shown = serve("listeners=PLAINTEXT://0.0.0.0:9092", f"log.dirs={tmp_path}")
    assert "advertised.listeners is not set" in shown
    assert "for instance PLAINTEXT://localhost:9092" in shown


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("sreve", "did you mean serve?"),
        ("start", "did you mean serve?"),
        ("lgo", "did you mean log?"),
    ],
)
def test_a_wrong_command_names_the_nearest(command: str, hint: str) -> None:
    shown = told(command)
    assert f"there is no command {command!r}" in shown
    assert hint in shown


def lines(broker: Broker, event: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in broker.log().splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == event]


def test_tls_spoken_to_a_plaintext_listener_is_logged_as_that_once() -> None:
    with Broker() as broker:
        host, port = broker.bootstrap_servers.split(":")
        context = ssl.create_default_context()
        for _ in range(5):
            with socket.create_connection((host, int(port)), 10) as plain, pytest.raises(OSError):
                context.wrap_socket(plain, server_hostname="localhost").close()
        (line,) = lines(broker, "a TLS client spoke to a plaintext listener")
        assert (line["listener"], line["client"]) == ("PLAINTEXT", "127.0.0.1")
        assert "security.protocol=PLAINTEXT" in str(line["advice"])


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS"])
def test_http_spoken_to_a_listener_is_answered_and_logged_as_that(method: str) -> None:
    with Broker() as broker:
        connection = http.client.HTTPConnection(broker.bootstrap_servers, timeout=10)
        connection.request(method, "/")
        answer = connection.getresponse()
        assert answer.status == http.HTTPStatus.BAD_REQUEST
        if method != "HEAD":
            assert b"speaks the Kafka protocol" in answer.read()
        (line,) = lines(broker, "an HTTP client spoke to a Kafka listener")
        assert "odradek.http.port" in str(line["advice"])
