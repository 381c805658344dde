"""The brokers that are measured, each a cold process with its own port and folder."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.first_record import wait_for_first_record
from odradek import location

ROOT = Path(__file__).parents[1]
KAFKA = os.environ.get("KAFKA_SCRIPT", str(ROOT.parent / "shared" / "peers" / "kafka" / "kafka"))

KAFKA_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners={listeners},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners={listeners}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


NO_SETTINGS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Tree:
    """Odradek's sources of another commit, and a Python that has what they need."""

    name: str
    root: Path
    python: Path


other_trees: list[Tree] = []
"""These are measured too (`benchmarks.against` fills it)."""


class Contender(Protocol):
    """`prepare` makes an empty folder, `start` returns at once, `stop` ends the process and removes the folder."""

    name: str
    port: int
    ports: dict[str, int]
    http_port: int
    folder: Path

    def prepare(self) -> None: ...
    def start(self) -> None: ...
    def pid(self) -> int: ...
    def stop(self) -> None: ...


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class _Process:
    """A child in its own process group, with a folder that is removed with it.

    Attributes:
        port: that of PLAINTEXT.
        ports: those of all protocols that it is to speak.
        http_port: for metrics and the console, if it has them.

    `{folder}` in a setting is its folder.
    """

    def __init__(self, settings: Mapping[str, str] = NO_SETTINGS, protocols: Sequence[str] = ("PLAINTEXT",)) -> None:
        self.ports = {protocol: free_port() for protocol in protocols}
        self.port = self.ports["PLAINTEXT"]
        self.http_port = free_port()
        self.folder = Path()
        self._settings = settings
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def _listeners(self) -> str:
        return ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in self.ports.items())

    def _make_folder(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="odradek-bench-"))
        self._settings = {key: value.replace("{folder}", str(self.folder)) for key, value in self._settings.items()}

    def _start(self, command: list[str], environment: dict[str, str]) -> None:
        with (self.folder / "log").open("wb") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | environment,
                start_new_session=True,
            )

    def pid(self) -> int:
        """The broker's own process: the last of the chain, if there is a shell before it."""
        assert self._child is not None
        pid = self._child.pid
        while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pid = int(children[0])
        return pid

    def stop(self) -> None:
        if self._child is not None:
            broker = os.pidfd_open(self.pid())  # a shell before it ends earlier
            os.killpg(self._child.pid, signal.SIGTERM)
            if select.select([broker], [], [], 30) == ([], [], []):
                os.killpg(self._child.pid, signal.SIGKILL)
            os.close(broker)
            self._child.wait()
            self._child = None
        shutil.rmtree(self.folder, ignore_errors=True)


class Odradek(_Process):
    """That of this tree, or of another."""

    def __init__(
        self,
        settings: Mapping[str, str] = NO_SETTINGS,
        protocols: Sequence[str] = ("PLAINTEXT",),
        tree: Tree | None = None,
    ) -> None:
        super().__init__(settings, protocols)
        self.name = "odradek" if tree is None else tree.name
        self._tree = tree

    def prepare(self) -> None:
        self._make_folder()

    def start(self) -> None:
        settings: dict[str, object] = {
            "listeners": self._listeners,
            "log.dirs": self.folder / "data",
        }
        settings["odradek.http.port"] = self.http_port
        settings |= self._settings
        arguments = ["serve"]
        for key, value in settings.items():
            arguments += ["--set", f"{key}={value}"]
        if self._tree is None:
            self._start(location.command(arguments), {})
        else:
            self._start([str(self._tree.python), "-m", "broker", *arguments], {"PYTHONPATH": str(self._tree.root)})


class Kafka(_Process):
    """Apache Kafka, run by a script whose `run CLASS ARGS` runs a class of its jars; heap 1 GB, Kafka's default."""

    name = "kafka"

    def __init__(
        self, script: Path, settings: Mapping[str, str] = NO_SETTINGS, protocols: Sequence[str] = ("PLAINTEXT",)
    ) -> None:
        super().__init__(settings, protocols)
        self._script = script

    def prepare(self) -> None:
        self._make_folder()
        properties = KAFKA_PROPERTIES.format(listeners=self._listeners, controller_port=free_port(), folder=self.folder)
        properties += "".join(f"{key}={value}\n" for key, value in self._settings.items())
        (self.folder / "server.properties").write_text(properties)
        cluster = "A" + urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")  # the tool takes no leading dash
        command = [str(self._script), "run", "kafka.tools.StorageTool", "format", "-t", cluster]
        subprocess.run([*command, "-c", str(self.folder / "server.properties")], check=True, capture_output=True)

    def start(self) -> None:
        command = [str(self._script), "run", "kafka.Kafka", str(self.folder / "server.properties")]
        self._start(command, {"JAVA_OPTS": "-Xmx1g"})


def contenders(
    script: str, alone: bool, settings: Mapping[str, str] = NO_SETTINGS, protocols: Sequence[str] = ("PLAINTEXT",)
) -> list[Contender]:
    """Odradek, that of other trees and, unless it is to run alone or the script is missing, Apache Kafka."""
    found: list[Contender] = [Odradek(settings, protocols), *(Odradek(settings, protocols, one) for one in other_trees)]
    if not alone and Path(script).exists():
        found.append(Kafka(Path(script), settings, protocols))
    elif not alone:
        sys.stderr.write(f"no Apache Kafka at {script}: Odradek alone\n")
    return found


@contextlib.contextmanager
def serving(contender: Contender) -> Iterator[Contender]:
    """A contender on an empty folder that has accepted its first record; stopped at the end."""
    contender.prepare()
    try:
        contender.start()
        wait_for_first_record(contender.port)
        yield contender
    finally:
        contender.stop()


def arguments(program: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with the options by which `contenders` chooses: `--kafka` and `--alone`."""
    parser = argparse.ArgumentParser(
        prog=program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kafka", default=KAFKA, help="script that runs Kafka's classes (default: %(default)s)")
    parser.add_argument("--alone", action="store_true", help="measure Odradek only")
    return parser
