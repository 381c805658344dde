"""A Java broker of a cluster, a process of its own, in a folder of the test's."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.client.java_tools import JVM_OPTIONS
from tests.client.kafka_node import command, jars
from tests.ports import free_port

READY_SECONDS = 300
"""A process that has ended is not waited for; beside Spark, on two cores, a start has taken 100 s."""
STOP_SECONDS = 60


class JavaBroker:
    """Broker `node_id` of the cluster of `controller`: its node id, host and port, such as `1@127.0.0.1:9093`."""

    def __init__(
        self,
        folder: Path,
        node_id: int,
        cluster_id: str,
        controller: str,
        settings: Mapping[str, object] | None = None,
        *,
        port: int | None = None,
        jvm: Sequence[str] = JVM_OPTIONS,
    ) -> None:
        """`jvm` are options that make it quick to start, unless others are given."""
        self.node_id = node_id
        self.port = port or free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.data = folder / f"java-{node_id}"
        self._log = folder / f"java-{node_id}.log"
        self._properties = folder / f"java-{node_id}.properties"
        lines = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "controller.quorum.voters": controller,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            "group.initial.rebalance.delay.ms": "0",
            **{key: str(value) for key, value in (settings or {}).items()},
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._process: subprocess.Popen[bytes] | None = None
        self._cluster_id = cluster_id
        self._jvm = jvm
        self._format()

    def _format(self) -> None:
        tool = command("kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(self._properties))
        done = subprocess.run(tool, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def launch(self) -> None:
        """Start the process; `await_ready` says when it serves."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["java", *self._jvm, "-cp", f"{jars()}/*", "kafka.Kafka", str(self._properties)], stdout=log, stderr=log
            )

    def await_ready(self) -> None:
        """Return once the port is open: the broker is unfenced then."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None, "it was launched"
            assert self._process.poll() is None, self.log()[-3000:]
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError(f"broker {self.node_id} is not up after {READY_SECONDS} s\n{self.log()[-3000:]}")

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def log(self) -> str:
        """All that it has printed."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def stop(self) -> int:
        """Stop it, with a controlled shutdown; return the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def lose_disks(self) -> None:
        """End it, and all that it has."""
        self.kill()
        shutil.rmtree(self.data)
        self._format()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def freeze(self) -> None:
        """Let it do nothing, its connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
