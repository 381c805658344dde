"""Consumer groups of real clients, each member a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from confluent_kafka import Producer

from tests.client import java_tools, other_languages

SCRIPT = Path(__file__).parent / "group_member.py"
SECONDS = 60.0
"""How long anything may take that a group does."""

PARTITIONS = 6
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 5000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 500,
}
"""A broker's, for sessions of a few seconds and no initial delay."""

KINDS = {
    "aiokafka": ("aiokafka", "range"),
    "confluent-range": ("confluent-kafka", "range"),
    "confluent-roundrobin": ("confluent-kafka", "roundrobin"),
    "confluent-cooperative": ("confluent-kafka", "cooperative-sticky"),
    "kafka-python": ("kafka-python", "range"),
    "java": ("java", "RangeAssignor"),
    "java-cooperative": ("java", "CooperativeStickyAssignor"),
    "confluent-new": ("confluent-kafka", "consumer"),
    "java-new": ("java", "consumer"),
}
"""Kinds of members: the client and its assignment strategy; those of the protocol of KIP-848 are new."""

FRANZ_GO = "franz-go"
"""A kind with a program and a strategy of its own: cooperative-sticky."""


def missing(kind: str) -> str | None:
    """Why this machine cannot run the kind; None when it can."""
    if kind == FRANZ_GO:
        found = other_languages.franz_go_failover()
        return found if isinstance(found, str) else None
    return java_tools.missing() if KINDS[kind][0] == "java" else None


def _command(kind: str, *arguments: str) -> list[str]:
    """The command of a member; the arguments are bootstrap servers, group, topic and instance, if it has one."""
    if kind == FRANZ_GO:
        program = other_languages.franz_go_failover()
        assert isinstance(program, list), program
        return [*program, "member", *arguments]
    client, strategy = KINDS[kind]
    if client == "java":
        return [*java_tools.compiled(java_tools.GROUP_MEMBER), strategy, *arguments]
    return [sys.executable, str(SCRIPT), client, strategy, *arguments]


class Member:
    """A process. What it tells is read by a thread; `owned` are the partitions it has by its own account."""

    def __init__(self, kind: str, bootstrap: str, group: str, topic: str, instance: str | None = None) -> None:
        command = _command(kind, bootstrap, group, topic, *([] if instance is None else [instance]))
        self.kind = kind
        self.owned: frozenset[int] = frozenset()
        self.told_owned: list[tuple[str, frozenset[int]]] = []
        self.read: set[tuple[int, int]] = set()
        self.left = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the end of the process
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors)
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _listen(self, output: IO[bytes]) -> None:
        for line in output:
            if not line.endswith(b"}\n"):
                return  # killed while it wrote
            told = json.loads(line)
            if "owned" in told:
                self.owned = frozenset(told["owned"])
                self.told_owned.append((told["member"], self.owned))
            for partition, offsets in told.get("read", {}).items():
                self.read.update((int(partition), offset) for offset in offsets)
            self.left |= "left" in told

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def leave(self) -> None:
        """SIGTERM: it leaves the group and ends by itself."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: the group finds out by itself."""
        self._process.kill()
        self._ended()

    def wait_left(self) -> None:
        """Until it has ended. One that was stopped before it was in the group has nothing to leave."""
        self._ended()
        assert self.left or not self.told_owned, self.complaints()

    def _ended(self) -> None:
        self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        self.owned = frozenset()

    def complaints(self) -> str:
        self._errors.seek(0)
        return f"{self.kind}: {self._errors.read()[-3000:].decode(errors='replace')}"


class Crew:
    """The members that a test started; all are killed at its end."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.members: list[Member] = []

    def start(self, kind: str, instance: str | None = None) -> Member:
        member = Member(kind, self.bootstrap, self.group, self.topic, instance)
        self.members.append(member)
        return member

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()

    @property
    def read(self) -> set[tuple[int, int]]:
        return set[tuple[int, int]]().union(*(member.read for member in self.members))

    def wait_for(self, what: str, true: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Raises AssertionError with what the members complained about."""
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                owned = [(m.kind, sorted(m.owned)) for m in self.members if m.running]
                raise AssertionError("\n".join([f"not {what}: {owned}", *(m.complaints() for m in self.members)]))
            time.sleep(0.02)

    def wait_shared(self, members: Sequence[Member], partitions: int) -> None:
        """Until these members have all partitions between them, each at least so many as even shares give."""
        least = partitions // len(members)

        def shared() -> bool:
            owned = [partition for member in members for partition in member.owned]
            even = all(len(member.owned) >= least for member in members)
            return even and sorted(owned) == list(range(partitions))

        self.wait_for(f"shared by {len(members)}", shared)


def produce(bootstrap: str, topic: str, count: int) -> None:
    """So many records to each partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        for partition in range(PARTITIONS):
            producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(SECONDS) == 0


def everything(count: int) -> set[tuple[int, int]]:
    return {(partition, offset) for partition in range(PARTITIONS) for offset in range(count)}
