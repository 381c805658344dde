"""Real input through every stock producer in every compression, read back byte for byte by every stock consumer."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.client import corpus
from tests.client.stock import COMPRESSIONS, StockClient


@pytest.mark.parametrize("data", ["text", "flights"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_consumer_reads_what_a_producer_sent(
    producing: StockClient,
    compression: str,
    data: str,
    bootstrap: str,
    topic: str,
    stock_clients: dict[str, StockClient],
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(30)
    sent = corpus.records(data)
    producing.produce(bootstrap, topic, sent, compression)
    for consumer in stock_clients.values():
        found = consumer.consume(bootstrap, topic, len(sent))
        assert b"\n".join(found) == b"\n".join(sent), f"{consumer.name} read something else"
    admin.delete_topics([topic])[topic].result(30)
