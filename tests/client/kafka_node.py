"""An Apache Kafka node (broker and controller) on a folder of the test's, and its tools for files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.client.java_tools import JARS, JVM_OPTIONS
from tests.ports import free_ports

PEERS = Path(os.environ.get("PEERS_HOME", Path.home() / ".cache" / "peers"))
CLUSTER_ID = "k2hLyQu2SZu2ZLwXKgnjPw"
READY_SECONDS = 60


def libs() -> Path | None:
    """The jars of the newest whole Kafka that this machine has; None if it has none."""
    found = [*PEERS.glob("kafka-*/libs"), JARS]
    whole = [folder for folder in found if any(folder.glob("kafka_2.13-*.jar"))]
    return max(whole, key=release_of, default=None)


def release_of(folder: Path) -> tuple[int, ...]:
    """The release of the Kafka in a folder of jars, such as (4, 4)."""
    (jar,) = folder.glob("kafka_2.13-*.jar")
    match = re.search(r"-(\d+)\.(\d+)", jar.name.removeprefix("kafka_2.13"))
    assert match is not None
    return int(match[1]), int(match[2])


def missing() -> str | None:
    """Why these tests cannot run here; None when they can."""
    if shutil.which("java") is None:
        return "java is not installed (tests/client/install-tools.sh)"
    if libs() is None:
        return f"there is no Apache Kafka, neither in {PEERS} nor in {JARS} (tests/client/install-tools.sh)"
    return None


def jars() -> Path:
    folder = libs()
    assert folder is not None, "the test was not skipped"
    return folder


def release() -> str:
    """The newest Kafka's release, such as 4.4."""
    return ".".join(map(str, release_of(jars())))


def command(main: str, *arguments: str) -> list[str]:
    return ["java", *JVM_OPTIONS, "-cp", f"{jars()}/*", main, *arguments]


def dump_log_segments(*arguments: str) -> str:
    """What the tool prints; its class is in one package or the other."""
    (tools,) = jars().glob("kafka-tools-[0-9]*.jar")
    with ZipFile(tools) as jar:
        moved = "org/apache/kafka/tools/DumpLogSegments.class" in jar.namelist()
    main = "org.apache.kafka.tools.DumpLogSegments" if moved else "kafka.tools.DumpLogSegments"
    done = subprocess.run(command(main, *arguments), capture_output=True, timeout=60, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


class KafkaNode:
    """Node 1 on `folder`, as broker and only voter: a static one, or with `dynamic` one whose log says so.

    `settings` are added to its properties, and win over those above.
    """

    def __init__(self, folder: Path, *, dynamic: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.dynamic = dynamic
        self._properties = folder.parent / "server.properties"
        self._log = folder.parent / "server.log"
        port, self.controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        voters = f"controller.quorum.voters=1@127.0.0.1:{self.controller_port}"
        self._properties.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"{voters.replace('voters=1@', 'bootstrap.servers=') if dynamic else voters}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{self.controller_port}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"log.dirs={folder}\noffsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n"
        )
        with self._properties.open("a", encoding="latin-1") as file:
            file.writelines(f"{name}={_escaped(value)}\n" for name, value in (settings or {}).items())
        self._process: subprocess.Popen[bytes] | None = None

    def format(self, *options: str) -> None:
        """Format the folder with Kafka's own tool."""
        tool = command("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties), *options)
        done = subprocess.run(tool, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> AdminClient:
        """Start the node, and wait until it serves."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command("kafka.Kafka", str(self._properties)), stdout=log, stderr=log)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        try:
            admin.list_topics(timeout=READY_SECONDS)
        except KafkaException as error:
            raise AssertionError(self._log.read_text()[-3000:]) from error
        return admin

    def stop(self) -> None:
        """Stop cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(60)


def _escaped(value: str) -> str:
    """A value as a properties file has it."""
    return "".join(char if char.isascii() and char != "\\" else f"\\u{ord(char):04x}" for char in value)
