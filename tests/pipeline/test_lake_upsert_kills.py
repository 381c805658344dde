"""kill -9 of `lake --upsert`'s driver, its JVM and the broker: one row a key, that of its newest committed record."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

import confluent_kafka
import deltalake

from odradek import Broker
from tests.messages import place_of
from tests.pipeline.test_lake_kills import PARTITIONS, Driver, Site, jars_of, torment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 30
KINDS = ["driver and JVM", "JVM", "broker", "driver and JVM", "broker", "JVM"]


class KeyedSite(Site):
    """Every record has one of a few keys, and each third is a tombstone; a third of the transactions is aborted."""

    def __init__(self, broker: Broker, topic: str, folder: Path, jars: str) -> None:
        super().__init__(broker, topic, folder, jars, optimize_every=4)
        self._chance = random.Random(11)

    def fill(self, transactions: int) -> None:
        settings = {"bootstrap.servers": self.broker.bootstrap_servers, "transactional.id": f"{self.topic}-producer"}
        producer = confluent_kafka.Producer(settings)
        producer.init_transactions(30)
        for number in range(transactions):
            producer.begin_transaction()
            for value in self._some(20):
                key = b"k%d" % self._chance.randrange(KEYS)
                producer.produce(self.topic, None if self._chance.random() < 0.3 else value, key=key)
            assert producer.flush(30) == 0
            if number % 3:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)

    def start(self, *options: str, master: str = "local[2]") -> Driver:
        return super().start(*options, "--upsert", self.topic, "--keep-snapshots", "3", master=master)

    def check(self, whole: bool = True) -> None:
        history, newest = self._consumed()
        read = deltalake.DeltaTable(str(self.table)).to_pyarrow_table(columns=["partition", "offset", "key", "value"])
        found = {row["key"]: (row["partition"], row["offset"], row["value"]) for row in read.to_pylist()}
        assert len(found) == read.num_rows, "a key has more than one row"
        assert all((key, *row) in history for key, row in found.items())
        assert not whole or found == newest

    def _consumed(self) -> tuple[set[tuple[bytes, int, int, bytes]], dict[bytes, tuple[int, int, bytes]]]:
        """All committed records with a value, and the row of each key, as a consumer has them."""
        history: set[tuple[bytes, int, int, bytes]] = set()
        newest: dict[bytes, tuple[int, int, bytes]] = {}
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)])
        ended = 0
        while ended < PARTITIONS:
            message = consumer.poll(30)
            assert message is not None, "the consumer saw nothing for 30 s"
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                ended += 1
                continue
            key, value = message.key(), message.value()
            assert key is not None
            if value is None:
                newest.pop(key, None)
            else:
                newest[key] = (*place_of(message), value)
                history.add((key, *newest[key]))
        consumer.close()
        return history, newest


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_upserts_through_kills(spark: SparkSession, own_broker: Broker, topic: str, tmp_path: Path) -> None:
    site = KeyedSite(own_broker, topic, tmp_path, jars_of(spark))
    torment(site, KINDS, random.Random(5))
    site.check()
