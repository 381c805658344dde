"""Three brokers with thousands of partitions: one falls silent, one is unregistered, all partitions move."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.synchronize import Event

from confluent_kafka.admin import AdminClient, PartitionMetadata

from benchmarks.by_hand import compact_text, flexible_frame, unsigned_varint
from benchmarks.first_record import ask
from benchmarks.stalls.row import SECONDS, Place, Row, Subject, create

TOPICS, A_TOPIC, REPLICAS = 30, 100, 2
UNREGISTER_BROKER, REASSIGN = 64, 45
SETTINGS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
NAMES = [f"many-{number}" for number in range(TOPICS)]
NO_TAGS = b"\0"


def prepare(subject: Subject) -> None:
    place = subject.place()
    create(place, NAMES, A_TOPIC, REPLICAS)
    admin = place.admin()
    for name in NAMES:
        _until(admin, name, lambda _index, found: len(found.isrs) == REPLICAS)


def silent(place: Place, begun: Event, _ended: Event) -> None:
    """Stop the last broker's process, and wait until it leads nothing."""
    last = _last(place)
    begun.set()
    os.kill(place.pids[-1], signal.SIGSTOP)
    try:
        _until_it_leads_nothing(place, last)
    finally:
        os.kill(place.pids[-1], signal.SIGCONT)


def unregistered(place: Place, begun: Event, _ended: Event) -> None:
    last = _last(place)
    begun.set()
    with socket.create_connection(("127.0.0.1", place.ports[0])) as connection:
        ask(connection, flexible_frame(UNREGISTER_BROKER, 0, struct.pack(">i", last), NO_TAGS))
    _until_it_leads_nothing(place, last)


def reassigned(place: Place, begun: Event, _ended: Event) -> None:
    """Let each partition have the next two brokers, in one request, and wait until they are in sync."""
    admin = place.admin()
    known = admin.list_topics(timeout=SECONDS)
    while not set(NAMES) <= known.topics.keys():  # a broker may make its logs for a while yet
        time.sleep(0.2)
        known = admin.list_topics(timeout=SECONDS)
    brokers = sorted(known.brokers)
    target = {
        name: [
            [
                brokers[(brokers.index(node) + 1) % len(brokers)]
                for node in known.topics[name].partitions[index].replicas
            ]
            for index in range(A_TOPIC)
        ]
        for name in NAMES
    }
    begun.set()
    with socket.create_connection(("127.0.0.1", place.ports[0])) as connection:
        ask(connection, _reassignment(target))
    for name in NAMES:
        _until(admin, name, partial(_is_at, target[name]))


def _is_at(target: list[list[int]], index: int, found: PartitionMetadata) -> bool:
    return bool(found.replicas == target[index])


def _reassignment(target: dict[str, list[list[int]]]) -> bytes:
    def array(items: list[bytes]) -> bytes:
        return unsigned_varint(len(items) + 1) + b"".join(items)

    def partition(index: int, replicas: list[int]) -> bytes:
        return struct.pack(">i", index) + array([struct.pack(">i", node) for node in replicas]) + NO_TAGS

    topics = [
        compact_text(name) + array([partition(index, each) for index, each in enumerate(replicas)]) + NO_TAGS
        for name, replicas in target.items()
    ]
    return flexible_frame(REASSIGN, 0, struct.pack(">i", SECONDS * 1000), array(topics), NO_TAGS)


def _last(place: Place) -> int:
    """The id of the broker with the last port."""
    brokers = place.admin().list_topics(timeout=30).brokers.values()
    return next(broker.id for broker in brokers if broker.port == place.ports[-1])


def _until_it_leads_nothing(place: Place, broker_id: int) -> None:
    others = AdminClient({"bootstrap.servers": f"127.0.0.1:{place.ports[0]}", "log_level": 0})
    for name in NAMES:
        _until(others, name, lambda _index, found: found.leader not in {broker_id, -1})


def _until(admin: AdminClient, topic: str, holds: Callable[[int, PartitionMetadata], bool]) -> None:
    """Return once it holds of all partitions of a topic."""

    def is_so() -> bool:
        found = admin.list_topics(topic, timeout=30).topics[topic].partitions
        return len(found) == A_TOPIC and all(holds(*each) for each in found.items())

    until = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError("the cluster did not come so far")
        time.sleep(0.05)


ROWS = (
    Row("silent-broker", silent, prepare, SETTINGS, ends=True, brokers=3),
    Row("unregistered", unregistered, prepare, SETTINGS, ends=True, brokers=3),
    Row("reassigned", reassigned, prepare, SETTINGS, ends=True, brokers=3),
)
