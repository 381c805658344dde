"""Controllers of Apache Kafka, each in a JVM of its own, for brokers of ours to join."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.errors import ErrorCode

from tests.client.kafka_node import jars
from tests.cluster.client import ask
from tests.ports import free_ports

CLUSTER_ID = "k2hLyQu2SZu2ZLwXKgnjPw"
READY_SECONDS = 60
FIRST_ID = 3000


def java(main: str, *arguments: str, heap: str = "-Xmx256m") -> list[str]:
    """The command that runs a class of the newest Kafka on this machine."""
    return ["java", heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", main, *arguments]


def tool(main: str, *arguments: str, succeeds: bool = True) -> str:
    """What one of Kafka's command-line tools prints."""
    done = subprocess.run(java(main, *arguments), capture_output=True, timeout=60, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0 or not succeeds, said[-4000:]
    return said


class KafkaControllers:
    """Nodes 3000, 3001, ... as the voters of a cluster; a context manager that starts and ends them."""

    def __init__(
        self,
        folder: Path,
        count: int = 1,
        *,
        features: Sequence[str] = (),
        release: str | None = None,
        settings: Sequence[str] = (),
    ) -> None:
        """`release` is that of the cluster's features, `settings` are lines for every `server.properties`."""
        self.folder = folder
        self._settings = settings
        self._release = () if release is None else ("--release-version", release)
        self.ids = [FIRST_ID + number for number in range(count)]
        self.ports = dict(zip(self.ids, free_ports(count), strict=True))
        self.voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in self.ports.items())
        self._features = features
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """The controllers' addresses, for tools that take --bootstrap-controller."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def broker_settings(self, node_id: int) -> dict[str, object]:
        """The settings of a broker of this cluster."""
        return {
            "process.roles": "broker",
            "node.id": node_id,
            "controller.quorum.voters": self.voters,
            "controller.listener.names": "CONTROLLER",
            "odradek.cluster.id": CLUSTER_ID,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
        }

    def __enter__(self) -> Self:
        try:
            for node_id in self.ids:
                self._format(node_id)
                self.start(node_id)
            for node_id in self.ids:
                self._await(node_id)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End them all."""
        for node_id in list(self._processes):
            self.kill(node_id)

    def start(self, node_id: int) -> None:
        """Start a controller that is not running."""
        with (self.folder / f"{node_id}.log").open("ab") as log:
            self._processes[node_id] = subprocess.Popen(
                java("kafka.Kafka", str(self._properties(node_id))), stdout=log, stderr=log
            )

    def kill(self, node_id: int) -> None:
        """Send SIGKILL."""
        process = self._processes.pop(node_id)
        process.send_signal(signal.SIGKILL)
        process.wait(60)

    def active(self) -> int:
        """The id of the active controller, as it says itself; waits until there is one."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            for node_id in self._processes:
                if self._is_active(node_id):
                    return node_id
            time.sleep(0.1)
        raise AssertionError(f"no controller is active after {READY_SECONDS} s")

    def _is_active(self, node_id: int) -> bool:
        metadata = TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),))
        try:
            response = ask(f"127.0.0.1:{self.ports[node_id]}", DescribeQuorumRequest(topics=(metadata,)))
        except OSError:  # it is starting
            return False
        return bool(response.topics[0].partitions[0].error_code is ErrorCode.none)

    def _properties(self, node_id: int) -> Path:
        return self.folder / f"{node_id}.properties"

    def _format(self, node_id: int) -> None:
        self._properties(node_id).write_text(
            f"process.roles=controller\nnode.id={node_id}\ncontroller.quorum.voters={self.voters}\n"
            f"listeners=CONTROLLER://127.0.0.1:{self.ports[node_id]}\ncontroller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"log.dirs={self.folder / str(node_id)}\n" + "\n".join(self._settings)
        )
        features = [part for feature in self._features for part in ("--feature", feature)]
        tool(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            CLUSTER_ID,
            "-c",
            str(self._properties(node_id)),
            *features,
            *self._release,
        )

    def _await(self, node_id: int) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self.ports[node_id])) == 0:
                    return
            if self._processes[node_id].poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError((self.folder / f"{node_id}.log").read_text()[-3000:])
