"""Text files that users write for the commands and the kit: byte order mark, ends of lines, UTF-8 in any locale."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.admin.users import main as user_main
from odradek.cli import contexts
from odradek.cli import streaming as produce
from odradek.security import Security
from odradek.testcontainers import KafkaContainer
from storage.files import OsFileSystem
from storage.folders import meta_properties
from storage.folders.meta_properties import MetaProperties

BOM = b"\xef\xbb\xbf"


def test_contexts_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "contexts.json"
    file.write_bytes(BOM + '{"current": "a", "contexts": {"a": {"sasl.password": "p\u00e4ss"}}}'.encode())
    monkeypatch.setenv(contexts.FILE, str(file))
    assert contexts.read().settings == {"a": {"sasl.password": "p\u00e4ss"}}


def test_file_of_variables(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_bytes(BOM + "KAFKA_NUM_PARTITIONS=3\r\nKAFKA_BROKER_RACK=a\x85b\u2028c\n".encode())
    container = KafkaContainer().with_env_file(file)
    assert container.env["KAFKA_NUM_PARTITIONS"] == "3"
    assert container.env["KAFKA_BROKER_RACK"] == "a\x85b\u2028c"


@pytest.mark.parametrize("content", [BOM + b"p\xc2\x85ss\r\nx", b"p\xc2\x85ss"])
def test_password_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    asked: list[str] = []
    monkeypatch.setattr("broker.admin.users.upsertion", lambda _name, _kind, password, *_: asked.append(password))
    monkeypatch.setattr("broker.admin.users.StoppedBroker.alter", lambda *_: None)
    file = tmp_path / "password"
    file.write_bytes(content)
    options = ["--set", f"log.dirs={tmp_path}"]
    CliRunner().invoke(user_main, ["add", "alice", "--password-file", str(file), *options], catch_exceptions=False)
    CliRunner().invoke(user_main, ["add", "alice", *options], input=content, catch_exceptions=False)
    assert asked == ["p\x85ss"] * 2
    file.write_bytes(b"\xff\n")
    said = CliRunner().invoke(user_main, ["add", "alice", "--password-file", str(file), *options])
    assert "expected a text in UTF-8" in said.output


def test_meta_properties(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(BOM + b"version=1\r\nnode.id=2\rcluster.id=c\n")
    assert meta_properties.read(OsFileSystem(), str(tmp_path)) == MetaProperties("c", 2, None)


@pytest.mark.parametrize(
    ("form", "content", "value"),
    [
        ("json", BOM + '{"value": "a\u2028b"}\n'.encode(), "a\u2028b".encode()),
        ("hex", BOM + b"6162\n", b"ab"),
        ("text", BOM + b"ab\n", BOM + b"ab"),
    ],
)
def test_records_of_the_input_of_produce(
    monkeypatch: pytest.MonkeyPatch, form: str, content: bytes, value: bytes
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    (record,) = produce._records((), form, None, produce.Encoders.of("t", form, None, None))
    assert record["value"] == value


@pytest.mark.parametrize("password", ["a\x85b", "\u2028", "a b"])
def test_a_password_of_the_kit_is_one_line_whatever_is_in_it(tmp_path: Path, password: str) -> None:
    assert Security.of("SASL_PLAINTEXT", {"alice": password}, tmp_path).users == {"alice": password}


@pytest.mark.parametrize("password", ["", "a\nb", "a\r"])
def test_a_password_of_the_kit_with_two_lines_is_refused(tmp_path: Path, password: str) -> None:
    with pytest.raises(ValueError, match="all on one line"):
        Security.of("SASL_PLAINTEXT", {"alice": password}, tmp_path)
