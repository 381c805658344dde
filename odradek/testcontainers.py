"""`KafkaContainer` with the methods of testcontainers-python's, which starts a process instead of a container.

A test suite that has `from testcontainers.kafka import KafkaContainer` takes it from here, and needs no Docker.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from odradek.process import Broker

INSIDE = 9092
"""The port at which containers of one network reach each other; here it is the same as the one outside."""

OF_THE_CONTAINER = (
    "KAFKA_LISTENERS",
    "KAFKA_ADVERTISED_",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
    "KAFKA_INTER_BROKER_",
    "KAFKA_SECURITY_INTER_BROKER_PROTOCOL",
    "KAFKA_CONTROLLER_",
    "KAFKA_PROCESS_ROLES",
    "KAFKA_ZOOKEEPER_",
    "KAFKA_LOG_DIR",
)
"""Variables that say how a container is reached and where it keeps its data: a process has its own answers."""


class KafkaContainer:
    """A Kafka broker for tests.

    Attributes:
        image: what was given; the broker is always this Odradek.
        port: the port inside a container, for `get_exposed_port`.
        env: `KAFKA_*` variables, which are settings as in Kafka's images.
        broker: the running `odradek.Broker`, with faults, the clock, snapshots and all else; None before `start`.
    """

    def __init__(
        self,
        image: str = "odradek",
        port: int = 9093,
        wait_strategy_check_string: str | None = None,
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        **kwargs: Any,
    ) -> None:
        """`env` may be among the keyword arguments; what only Docker understands is taken and has no effect.

        Raises ValueError for a `security_protocol` other than PLAINTEXT, and for `port_to_expose`, now `port`.
        """
        if "port_to_expose" in kwargs:
            raise ValueError("port_to_expose is now called port")
        if security_protocol != "PLAINTEXT":
            raise ValueError(f"security_protocol = {security_protocol!r}: expected PLAINTEXT")
        self.image = image
        self.port = port
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.kraft_enabled = False
        self.cluster_id: str | None = None
        self.env: dict[str, str] = dict(kwargs.get("env") or {})
        self.broker: Broker | None = None
        self._fixed_port = 0

    # -- before the start

    def with_env(self, key: str, value: object) -> Self:
        """Set a variable, such as `KAFKA_NUM_PARTITIONS`."""
        self.env[key] = str(value)
        return self

    def with_envs(self, **variables: object) -> Self:
        """Set several variables."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_env_file(self, env_file: str | os.PathLike[str]) -> Self:
        """Set the variables of a file with a `KEY=VALUE` in each line."""
        for line in re.split(r"\r?\n", Path(env_file).read_bytes().decode("utf-8-sig")):
            key, separator, value = line.strip().removeprefix("export ").partition("=")
            if separator and not key.startswith("#"):
                self.with_env(key.strip(), value.strip().strip("'\""))
        return self

    def with_kraft(self) -> Self:
        """Note it: the broker needs no ZooKeeper anyway."""
        self.kraft_enabled = True
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        """Give the cluster an id of 22 characters."""
        self.cluster_id = cluster_id
        return self

    def with_bind_ports(self, container: int | str, host: int | str | None = None) -> Self:
        """Listen on this port of the machine."""
        if _number(container) in (self.port, INSIDE) and host is not None:
            self._fixed_port = _number(host)
        return self

    def _change_nothing(self, *given: Any, **named: Any) -> Self:
        """Change nothing: it is Docker's, of which a process has no need; `start` returns once the broker serves."""
        return self

    with_exposed_ports = with_network = with_network_aliases = with_kwargs = _change_nothing
    with_name = with_tmpfs_mount = maybe_emulate_amd64 = waiting_for = _change_nothing

    # -- running

    def start(self, timeout: float = 30) -> Self:
        """Start the broker, and return once it serves; `timeout` is seconds. Raises odradek.BrokerStartError."""
        if self.broker is None:
            settings: dict[str, object] = {"listeners": f"{self.listener_name}://127.0.0.1:{self._fixed_port}"}
            if self.listener_name != "PLAINTEXT":
                settings["listener.security.protocol.map"] = f"{self.listener_name}:{self.security_protocol}"
            if self.cluster_id is not None:
                settings["odradek.cluster.id"] = self.cluster_id
            broker = _Process(settings, self.env, timeout)
            broker.__enter__()
            self.broker = broker
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop the broker and remove its data."""
        broker, self.broker = self.broker, None
        if broker is not None:
            broker.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def get_bootstrap_server(self) -> str:
        """`host:port` for clients."""
        return self._running().bootstrap_servers

    def get_container_host_ip(self) -> str:
        """The host of `get_bootstrap_server`."""
        return self.get_bootstrap_server().rpartition(":")[0]

    def get_exposed_port(self, port: int | str) -> int:
        """The port of the machine that stands for `port` of a container. Raises ValueError for another than Kafka's."""
        if _number(port) not in (self.port, INSIDE):
            raise ValueError(f"port = {port!r}: expected {self.port} or {INSIDE}; nothing else is served")
        return int(self.get_bootstrap_server().rpartition(":")[2])

    def get_container_id(self) -> str:
        """The id of the process."""
        return str(self._running().pid)

    def get_logs(self) -> tuple[bytes, bytes]:
        """Return what the broker has logged, as output and as errors, of which there are none."""
        return self._running().log().encode(), b""

    @property
    def status(self) -> str:
        """`not_started`, `running` or `exited`, as Docker says it."""
        if self.broker is None:
            return "not_started"
        return "running" if self.broker.running else "exited"

    def reload(self) -> None:
        """Change nothing: `status` is always the present one."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in ONLY_CONTAINERS:
            raise NotImplementedError(
                f"{name} needs a container: use the image of Odradek with testcontainers.kafka.KafkaContainer for that"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _running(self) -> Broker:
        if self.broker is None:
            raise RuntimeError("the container is not started")
        return self.broker


ONLY_CONTAINERS = (
    "with_command",
    "with_volume_mapping",
    "with_copy_into_container",
    "copy_into_container",
    "copy_from_container",
    "create_file",
    "exec",
    "get_wrapped_container",
    "get_docker_client",
    "get_container_info",
    "wait",
)
"""Methods of testcontainers' for which there must be a container."""


class _Process(Broker):
    """A broker that reads settings from variables, as in an image."""

    def __init__(self, settings: dict[str, object], env: dict[str, str], start_timeout: float) -> None:
        super().__init__(settings, start_timeout=start_timeout)
        self._variables = {key: value for key, value in env.items() if not key.startswith(OF_THE_CONTAINER)}

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), **self._variables}


def _number(port: int | str) -> int:
    """The number of a port such as 9093 or "9093/tcp". Raises ValueError."""
    digits = str(port).partition("/")[0]
    if not digits.isdecimal():
        raise ValueError(f"port = {port!r}: expected a number")
    return int(digits)
