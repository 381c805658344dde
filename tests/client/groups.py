"""Consumer groups of real clients, each member a process, and what `__consumer_offsets` says happened to them."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from coordinator.hashing import partition_for
from protocol.internal.group_records import GROUP_METADATA, OFFSET_COMMIT
from tests.client import java_tools

SCRIPT = Path(__file__).parent / "group_member.py"
SECONDS = 60.0
"""How long anything may take that a group does."""

PARTITIONS = 6
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
"""A broker's, for sessions of a few seconds and no initial delay."""

KINDS = {
    "aiokafka": ("aiokafka", "range"),
    "confluent-range": ("confluent-kafka", "range"),
    "confluent-roundrobin": ("confluent-kafka", "roundrobin"),
    "confluent-cooperative": ("confluent-kafka", "cooperative-sticky"),
    "kafka-python": ("kafka-python", "range"),
    "java": ("java", "RangeAssignor"),
    "java-cooperative": ("java", "CooperativeStickyAssignor"),
}
"""Kinds of members: the client and its assignment strategy."""


def missing(kind: str) -> str | None:
    """Why this machine cannot run the kind; None when it can."""
    return java_tools.missing() if KINDS[kind][0] == "java" else None


class Member:
    """A process. What it tells is read by a thread; `owned` are the partitions it has by its own account."""

    def __init__(self, kind: str, bootstrap: str, group: str, topic: str, instance: str | None = None) -> None:
        client, strategy = KINDS[kind]
        arguments = [strategy, bootstrap, group, topic, *([] if instance is None else [instance])]
        if client == "java":
            command = [*java_tools.group_member_command(), *arguments]
        else:
            command = [sys.executable, str(SCRIPT), client, *arguments]
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


@dataclass(slots=True)
class History:
    """What a group's records in `__consumer_offsets` say, oldest first."""

    assignments: list[tuple[int, dict[str, frozenset[int]]]] = field(default_factory=list)
    """Generations, with the partitions of every member."""
    commits: list[tuple[int, int]] = field(default_factory=list)
    """Partitions and offsets."""

    def committed(self) -> dict[int, int]:
        return dict(self.commits)

    def check(self, members: Iterable[Member]) -> None:
        """No partition twice in a generation; members own what they were assigned; no commit goes back."""
        assigned: dict[str, list[frozenset[int]]] = {}
        for generation, shares in self.assignments:
            together = [partition for share in shares.values() for partition in share]
            assert len(together) == len(set(together)), f"generation {generation}: {shares}"
            for member_id, share in shares.items():
                assigned.setdefault(member_id, []).append(share)
        generations = [generation for generation, _ in self.assignments]
        assert generations == sorted(generations)
        for member in members:
            for member_id, owned in member.told_owned:
                shares_of_it = assigned.get(member_id, [])
                assert not owned or any(owned <= share for share in shares_of_it), (member.kind, member_id, owned)
        last: dict[int, int] = {}
        for partition, offset in self.commits:
            assert offset >= last.get(partition, 0), f"partition {partition} went back from {last[partition]}"
            last[partition] = offset


def history(bootstrap: str, group: str, offsets_partitions: int = 50) -> History:
    """Reads the partition of `__consumer_offsets` that the group belongs to, from its start to its end."""
    found = History()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    place = TopicPartition("__consumer_offsets", partition_for(group, offsets_partitions), OFFSET_BEGINNING)
    try:
        end = consumer.get_watermark_offsets(place, timeout=SECONDS)[1]
        consumer.assign([place])
        position = 0
        deadline = time.monotonic() + SECONDS
        while position < end:
            assert time.monotonic() < deadline, f"stuck at {position} of {end}"
            for message in consumer.consume(1000, 0.1):
                assert message.error() is None, message.error()
                position = message.offset() + 1
                if message.value() is not None:
                    _note(found, group, message.key(), message.value())
    finally:
        consumer.close()
    return found


def _note(found: History, group: str, key: bytes, value: bytes) -> None:
    kind = int.from_bytes(key[:2], "big")
    if kind in OFFSET_COMMIT.ids:
        commit = OFFSET_COMMIT.decode_key(key)
        if commit.group == group:
            found.commits.append((commit.partition, OFFSET_COMMIT.decode_value(value).offset))
    elif kind in GROUP_METADATA.ids and GROUP_METADATA.decode_key(key).group == group:
        metadata = GROUP_METADATA.decode_value(value)
        if metadata.members:
            shares = {member.member_id: partitions_in(member.assignment) for member in metadata.members}
            found.assignments.append((metadata.generation, shares))


def partitions_in(assignment: bytes) -> frozenset[int]:
    """The partitions in a ConsumerProtocolAssignment of one topic; none in an empty one."""
    if not assignment:
        return frozenset()
    (topics,) = struct.unpack_from(">i", assignment, 2)
    if not topics:
        return frozenset()
    assert topics == 1
    (length,) = struct.unpack_from(">h", assignment, 6)
    (count,) = struct.unpack_from(">i", assignment, 8 + length)
    return frozenset(struct.unpack_from(f">{count}i", assignment, 12 + length))
