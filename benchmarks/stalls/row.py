"""A row of `benchmarks.stall`, and the place where its work is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

TOPICS_AT_ONCE = 500
SECONDS = 300
"""The most that one request of an administrator, or a work that ends by itself, may take."""


class Place(NamedTuple):
    """The brokers that a row's work is about; of one alone, the tuples have one item.

    `watched` are the ports that small clients ask meanwhile: those of the brokers, and of a controller of its own.
    """

    ports: tuple[int, ...]
    pids: tuple[int, ...]
    watched: tuple[int, ...]
    folder: Path
    http_port: int

    @property
    def servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})


class Subject(Protocol):
    """A broker or a cluster that runs."""

    name: str

    def place(self) -> Place: ...
    def restart(self, meanwhile: Callable[[], None]) -> None:
        """Stop in good order, and start; `meanwhile` is called in between."""


Work = Callable[[Place, Event, Event], None]
"""Done in a process of its own: sets the first event once it has begun, ends when the second is set, or by itself."""


def _nothing(_subject: Subject) -> None:
    """Most works need nothing prepared."""


@dataclass(frozen=True)
class Row:
    """What is measured beside what.

    Attributes:
        prepare: called once before the first pass, in the process of the benchmark.
        settings: of the broker; `{folder}` in them is its folder.
        ends: the work ends by itself, and then the pass is over; it is done once.
        restarts: the broker is started anew when the pass begins.
        is_ours: Apache Kafka has nothing like it.
        brokers: more than one are a cluster with a controller of its own.
    """

    name: str
    work: Work
    prepare: Callable[[Subject], None] = _nothing
    settings: Mapping[str, str] = field(default_factory=dict)
    ends: bool = False
    restarts: bool = False
    is_ours: bool = False
    brokers: int = 1


def create(place: Place, names: list[str], partitions: int = 1, replicas: int = 1) -> None:
    """Create topics, some hundreds in a request; those of an earlier pass are there already."""
    admin = place.admin()
    for first in range(0, len(names), TOPICS_AT_ONCE):
        topics = [NewTopic(name, partitions, replicas) for name in names[first : first + TOPICS_AT_ONCE]]
        for done in admin.create_topics(topics, operation_timeout=SECONDS, request_timeout=SECONDS).values():
            try:
                done.result(SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
