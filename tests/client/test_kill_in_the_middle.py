"""kill -9 and restart while a stock idempotent producer sends: nothing is lost, nothing doubled, the order stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker
from tests.brokers import sound_broker
from tests.client import corpus
from tests.client.stock import COMPRESSIONS, StockClient

KILLS = 2
DOWN_SECONDS = 0.3


class Killer:
    """Hands on records, and kills the broker at even distances on the way; it comes back a moment later."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._restarts: list[threading.Timer] = []

    def kill_within(self, records: Sequence[bytes]) -> Iterator[bytes]:
        moments = {len(records) * (k + 1) // (KILLS + 1) for k in range(KILLS)}
        for number, record in enumerate(records):
            if number in moments:
                self.wait_until_back()
                self._broker.kill()
                restart = threading.Timer(DOWN_SECONDS, self._broker.restart)
                restart.start()
                self._restarts.append(restart)
            yield record

    def wait_until_back(self) -> None:
        for restart in self._restarts:
            restart.join()

    @property
    def kills(self) -> int:
        return len(self._restarts)


@pytest.fixture
def broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker() as broker:
        yield broker


@pytest.mark.parametrize("data", ["text", "flights"])
def test_idempotent_producer_survives_kill_9(
    producing: StockClient, data: str, broker: Broker, topic: str, stock_clients: dict[str, StockClient]
) -> None:
    bootstrap = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    sent = corpus.records(data)
    killer = Killer(broker)
    compression = COMPRESSIONS[sum(producing.name.encode()) % len(COMPRESSIONS)]
    producing.produce(bootstrap, topic, killer.kill_within(sent), compression)
    killer.wait_until_back()
    assert killer.kills == KILLS
    for consumer in stock_clients.values():
        found = consumer.consume(bootstrap, topic, len(sent))
        assert b"\n".join(found) == b"\n".join(sent), f"{consumer.name} read something else"
    assert end_offset(bootstrap, topic) == len(sent)


def end_offset(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])
    finally:
        consumer.close()
