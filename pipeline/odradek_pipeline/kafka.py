"""A cluster as the jobs see it: the connector's options, and the Java admin client of Spark's own driver.

The brokers' addresses are tried before Spark starts: a wrong one is told at once, and not after ten attempts.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import SparkSession


TOTAL_S = 8.0
"""How long all addresses together are tried."""

API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A request with correlation id 1 and no client id, which every broker answers."""


class NotReachable(click.ClickException):
    """No address given with --bootstrap leads to a broker. Exit status 1."""


def require_brokers(bootstrap: str, client: Mapping[str, str]) -> None:
    """Return once one address answers; `client` is the Kafka client's configuration, without prefixes.

    A listener with TLS or SASL is only connected to. Raises NotReachable with what was tried.
    """
    plain = client.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"
    deadline = time.monotonic() + TOTAL_S
    tried: list[str] = []
    for address in filter(None, (part.strip() for part in bootstrap.split(","))):
        problem = _problem(address, plain, deadline)
        if problem is None:
            return
        tried.append(f"{address}: {problem}")
    raise NotReachable(f"no broker answers at --bootstrap {bootstrap}\n  " + "\n  ".join(tried or ["no address given"]))


def _problem(address: str, plain: bool, deadline: float) -> str | None:
    """Why an address leads to no broker; None if it does."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return "expected HOST:PORT"
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, OverflowError) as error:
        return f"the name is not known ({error})"
    problems = []
    for family, kind, protocol, _, place in found:
        left = max(0.2, (deadline - time.monotonic()) / 2)
        try:
            with socket.socket(family, kind, protocol) as connection:
                connection.settimeout(left)
                connection.connect(place)
                if not plain or _is_kafka(connection):
                    return None
                problems.append(f"{place[0]} is no Kafka listener without TLS (set security.protocol?)")
        except OSError as error:
            problems.append(f"{place[0]} {error.strerror or error}")
    return ", ".join(problems)


def _is_kafka(connection: socket.socket) -> bool:
    connection.sendall(API_VERSIONS_V0)
    return connection.recv(8, socket.MSG_WAITALL)[4:8] == struct.pack(">i", 1)


ADMIN_TIMEOUT_MS = 30_000
GROUP_TIMEOUT_MS = 5_000
"""Offsets of a group are for others to look at: the job does not wait long for them."""


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Where the brokers are. `options` go to the connector; those named `kafka.*` to the admin client as well."""

    bootstrap: str
    options: Mapping[str, str] = field(default_factory=dict)

    def connector_options(self) -> dict[str, str]:
        """The options for a read: committed records only, with headers, unless `options` say otherwise."""
        ours = {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
        }
        return ours | dict(self.options)

    def client_properties(self) -> dict[str, str]:
        """A Java client's properties: bootstrap servers, and what `options` set for security, timeouts and so on."""
        prefix = "kafka."  # which the connector recognises in any case
        settings = ((key.lower(), value) for key, value in self.options.items())
        given = {key.removeprefix(prefix): value for key, value in settings if key.startswith(prefix)}
        return {"bootstrap.servers": self.bootstrap, "default.api.timeout.ms": str(ADMIN_TIMEOUT_MS)} | given


class ClusterError(Exception):
    """The brokers did not answer, answered with an error, or were never asked; the message is Kafka's own."""


class Admin:
    """Kafka's Java admin client, in the driver's JVM. Its failures are ClusterErrors."""

    def __init__(self, spark: SparkSession, cluster: ClusterAddress) -> None:
        from py4j.protocol import Py4JJavaError

        jvm: Any = spark._jvm
        self._jvm = jvm
        properties = jvm.java.util.Properties()
        for key, value in cluster.client_properties().items():
            if key != "isolation.level":
                properties.put(key, value)
        try:
            self._client = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        except Py4JJavaError as error:
            raise ClusterError(_deepest(error)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def topics(self) -> set[str]:
        """Names of all topics, without Kafka's internal ones."""
        return set(_answer(self._client.listTopics().names()))

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Topic to topic id (KIP-516: a recreated topic gets another). Nonexistent topics are left out."""
        wanted = self._jvm.java.util.ArrayList()
        for name in names:
            wanted.add(name)
        found = {}
        for name, future in self._client.describeTopics(wanted).topicNameValues().items():
            try:
                found[name] = _answer(future).topicId().toString()
            except ClusterError as error:
                if "UnknownTopicOrPartitionException" not in str(error):
                    raise
        return found

    def offsets(self, topic: str) -> tuple[dict[int, int], dict[int, int]]:
        """By partition, the first offset, and the one after the last that a read_committed consumer may read."""
        kafka = self._jvm.org.apache.kafka
        names = self._jvm.java.util.ArrayList()
        names.add(topic)
        described = _answer(self._client.describeTopics(names).topicNameValues()[topic])
        options = kafka.clients.admin.ListOffsetsOptions(kafka.common.IsolationLevel.READ_COMMITTED)
        found: list[dict[int, int]] = []
        for spec in (kafka.clients.admin.OffsetSpec.earliest(), kafka.clients.admin.OffsetSpec.latest()):
            wanted = self._jvm.java.util.HashMap()
            for info in described.partitions():
                wanted.put(kafka.common.TopicPartition(topic, info.partition()), spec)
            answer = _answer(self._client.listOffsets(wanted, options).all())
            found.append({place.partition(): result.offset() for place, result in answer.items()})
        return found[0], found[1]

    def set_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set the offsets of a group without members."""
        kafka = self._jvm.org.apache.kafka
        wanted = self._jvm.java.util.HashMap()
        for partition, offset in offsets.items():
            place = kafka.clients.consumer.OffsetAndMetadata(offset)
            wanted.put(kafka.common.TopicPartition(topic, partition), place)
        options = kafka.clients.admin.AlterConsumerGroupOffsetsOptions().timeoutMs(GROUP_TIMEOUT_MS)
        _answer(self._client.alterConsumerGroupOffsets(group, wanted, options).all())

    def is_compacted(self, topic: str) -> bool:
        """Whether the topic's `cleanup.policy` has `compact`; false for a topic that does not exist."""
        config = self._jvm.org.apache.kafka.common.config.ConfigResource
        wanted = self._jvm.java.util.ArrayList()
        wanted.add(config(config.Type.TOPIC, topic))
        try:
            (found,) = _answer(self._client.describeConfigs(wanted).all()).values()
        except ClusterError as error:
            if "UnknownTopicOrPartitionException" in str(error):
                return False
            raise
        return "compact" in str(found.get("cleanup.policy").value()).split(",")


def _answer(future: Any) -> Any:
    """The value of a Java future; its failure is raised as ClusterError."""
    from py4j.protocol import Py4JJavaError

    try:
        return future.get()
    except Py4JJavaError as error:
        raise ClusterError(_deepest(error)) from None


def _deepest(error: Py4JJavaError) -> str:
    """The root cause of a Java exception, in one line."""
    found = error.java_exception
    while (cause := found.getCause()) is not None:
        found = cause
    return str(found.toString())
