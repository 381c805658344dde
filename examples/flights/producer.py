"""The flights as records of a topic: JSON, keyed by carrier, a day after the other."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.flights.data import Flight

PARTITIONS = 4
SECONDS = 60.0


def create_topic(bootstrap: str, topic: str) -> None:
    """Raises KafkaException when it is there already."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(SECONDS)


class Departures(threading.Thread):
    """Sends the flights as fast as the broker takes them; `error` is why it ended early, None when all are there.

    A day is in the broker before the next one begins. So a reader that has seen a flight of one partition will find
    none in another that is more than a day older, and may let go of what is.
    """

    def __init__(self, bootstrap: str, topic: str, flights: Callable[[], Sequence[Flight]]) -> None:
        super().__init__(name="departures", daemon=True)
        self.sent = 0
        self.error: Exception | None = None
        self._flights = flights
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "compression.type": "zstd"}
        )

    def run(self) -> None:
        try:
            for _, day in itertools.groupby(self._flights(), lambda flight: flight.scheduled.date()):
                self._send(list(day))
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self.error = error

    def _send(self, day: Sequence[Flight]) -> None:
        failed: list[str] = []
        for flight in day:
            self._producer.produce(
                self._topic,
                flight.to_json(),
                flight.carrier,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
        if self._producer.flush(SECONDS) or failed:
            raise RuntimeError(f"the broker did not take every flight of {day[0].scheduled.date()}: {failed[:1]}")
        self.sent += len(day)
