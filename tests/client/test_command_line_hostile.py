"""`odradek` with what no cluster takes, and where its output cannot be written: no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from broker.program import main as node
from odradek import Broker
from odradek.cli.main import NodeCommand, odradek
from tests.brokers import sound_broker
from tests.command_line import NO_CONTEXTS, Odradek, on_a_terminal

HOSTILE = ("\udcff", "", "9" * 30, "4294967296", "t:4294967296", "t=4294967296")
LEFT_OUT = ("bootstrap", "context", "settings", "timeout", "as_json", "help", "seconds", "count")
"""The general options, and how long it goes on: a very large number is a right one there."""
BESIDE = {("consume",): ["-e"], ("bench", "consume"): ["--seconds=0.1"], ("bench", "produce"): ["--seconds=0.1"]}
BESIDE |= {("bench", "latency"): ["-n2"], ("reassign", "start"): ["t=1"]}


@pytest.fixture(scope="module")
def broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker() as broker:
        broker.topic("t", partitions=1)
        yield broker


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            if not isinstance(found, NodeCommand):
                yield from commands(found, (*path, name))
    else:
        yield path, command


def lines(path: tuple[str, ...], command: click.Command) -> Iterator[list[str]]:
    """The command with each hostile value for each argument and option in turn."""
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    options = [one for one in command.params if isinstance(one, click.Option) and one.name not in LEFT_OUT]
    beside = BESIDE.get(path, [])
    for value in HOSTILE:
        for wrong in arguments:
            yield [
                *path,
                *(value if one is wrong else "t" for one in arguments if one.required or one is wrong),
                *beside,
            ]
        for option in (one for one in options if not one.is_flag):
            named = [option.opts[0], value]
            yield [*path, *("t" for one in arguments if one.required), *beside, *named]


def run_the_node(arguments: Sequence[str]) -> NoReturn:
    """In place of becoming the node's program."""
    ran = CliRunner().invoke(node, list(arguments), input="x\n")
    assert ran.exception is None or isinstance(ran.exception, SystemExit), (arguments, ran.exc_info)
    raise SystemExit(ran.exit_code)


def test_no_command_ends_with_a_traceback(broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ODRADEK_CONTEXTS", os.devnull + ".none/contexts")
    monkeypatch.setattr("odradek.cli.operations.become_the_node", run_the_node)
    monkeypatch.chdir(tmp_path)
    where, runner, seen = ["-b", broker.bootstrap_servers, "--timeout", "20"], CliRunner(), 0
    for path, command in commands(odradek):
        for line in lines(path, command):
            of_cluster = where if any(one.name == "bootstrap" for one in command.params) else []
            ran = runner.invoke(odradek, [*line, *of_cluster], input="x\n")
            assert ran.exception is None or isinstance(ran.exception, SystemExit), (line, ran.exc_info)
            seen += 1
    assert seen > 200


def test_output_that_cannot_be_encoded_is_escaped(broker: Broker) -> None:
    here = Odradek(broker.bootstrap_servers)
    ascii_only = {"PYTHONIOENCODING": "ascii", "ODRADEK_CONTEXTS": os.devnull + ".none"}
    here.told("topics", "create", "written", "-p", "1")
    here.told("produce", "written", "straße 🎉", "-k", "日本", environment=ascii_only)
    told = here.told("consume", "written", "-e", "-g", "日本", "-f", "%k %v\\n", environment=ascii_only)
    assert told == "\\u65e5\\u672c stra\\xdfe \\U0001f389\n"
    here.told("groups", "list", environment=ascii_only)
    assert here.run("topics", "describe", "日本", environment=ascii_only)[0] == 1
    assert here.run("explain", "error", "日本", at="", environment=ascii_only)[0] == 1
    here.told("bench", "produce", "written", "--seconds", "0.1", environment=ascii_only)  # its chart is of blocks


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [("topics", "--help"), ("contexts", "list"), ("explain", "error", "6")])
def test_output_that_cannot_be_written_is_no_bug(command: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "odradek", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **NO_CONTEXTS},
        )
    assert (ran.returncode, ran.stderr) == (1, "Error: the output cannot be written: No space left on device\n")


def test_an_argument_that_is_no_text_is_named_and_a_value_is_kept(broker: Broker) -> None:
    program = [sys.executable.encode(), b"-m", b"odradek"]
    at = [b"-b", broker.bootstrap_servers.encode()]

    def run(*words: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*program, *words, *at], capture_output=True, timeout=60, check=False)

    refused = run(b"topics", b"delete", b"caf\xe9")
    assert (refused.returncode, b"is no text in UTF-8" in refused.stderr) == (2, True)
    assert run(b"produce", b"t", b"caf\xe9", b"-k", b"\xff", b"-H", b"h=\xfe").returncode == 0
    assert b'{"base64": "Y2Fm6Q=="}' in run(b"consume", b"t", b"-e", b"--json").stdout


def test_a_terminal_does_not_obey_what_clients_wrote_and_a_pipe_gets_each_byte(broker: Broker) -> None:
    here = Odradek(broker.bootstrap_servers)
    value = b"\x1b]52;c;cm0=\x07\r\xc2\x9b31m\xe2\x80\xae \xff\xfe"
    here.told("topics", "create", "osc", "-p", "1", "-c", "compression.type=zstd")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("osc", value, key=value, headers=[("h\x1b[2J\u202e", value)])
    producer.flush(30)
    told = rb"\x1b]52;c;cm0=\x07\r\x9b31m\u202e \xff\xfe"
    forms: dict[str, tuple[bytes, bytes]] = {
        "text": (value + b"\n", told + b"\n"),
        "%k|%v|%h": (
            value + b"|" + value + "|h\x1b[2J\u202e=".encode() + value,
            told + b"|" + told + rb"|h\x1b[2J\u202e=" + told,
        ),
    }
    command = ("consume", "osc", "-n", "1", "-b", broker.bootstrap_servers)
    for form, (piped, shown) in forms.items():
        ran = subprocess.run(
            [sys.executable, "-m", "odradek", *command, "-f", form], capture_output=True, timeout=60, check=False
        )
        assert (ran.returncode, ran.stdout) == (0, piped), ran.stderr
        assert on_a_terminal(*command, "-f", form).startswith(shown)
    assert b"read 1 records" in on_a_terminal(*command)
    assert b"\x1b" not in on_a_terminal("topics", "describe", "osc", "-b", broker.bootstrap_servers)
