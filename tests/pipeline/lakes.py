"""Topics to fill and lakes to run, for the tests of `lake`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from odradek_pipeline.files import Files
from odradek_pipeline.kafka import Admin, ClusterAddress
from odradek_pipeline.lake.ingest import IngestServices
from odradek_pipeline.lake.job import LakeJob
from odradek_pipeline.lake.progress import Reporter
from odradek_pipeline.lake.schemas import parse_specs
from odradek_pipeline.lake.settings import LakeSettings
from odradek_pipeline.registry import Registry
from tests.messages import place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class Lake:
    """A lake on local disk and the cluster it is filled from; `run` is one start of the job, to the topics' ends."""

    spark: SparkSession
    bootstrap: str
    path: Path
    registry: Registry | None = None
    reporter: Reporter = field(default_factory=Reporter)

    def settings(self, **rest: Any) -> LakeSettings:
        # In Spark 4.1 a query fails after a batch that it repeats: the connector's metrics do not expect that.
        attempts = 1 if self.spark.version.startswith("4.0.") else 2
        given: dict[str, Any] = {"available_now": True, "attempts": attempts} | rest
        given["specs"] = parse_specs(given.pop("schemas", ()))
        given["key_specs"] = parse_specs(given.pop("key_schemas", ()))
        options = given.pop("options", {})
        return LakeSettings(cluster=ClusterAddress(self.bootstrap, options), path=str(self.path), **given)

    def run(self, *topics: str, **rest: Any) -> dict[str, str]:
        settings = self.settings(topics=topics, **rest)
        with Admin(self.spark, settings.cluster) as admin:
            counted = self.reporter.counted
            around = IngestServices(self.spark, Files(self.spark), admin, settings, counted, self.registry)
            return dict(LakeJob(around, self.reporter).run().failed)

    def delta(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.path / name))


def offsets(rows: DataFrame) -> list[tuple[int, int]]:
    """Partition and offset of each row, in order: equal lists have the same records the same number of times."""
    return sorted((row.partition, row.offset) for row in rows.select("partition", "offset").collect())


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    configs = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(30)


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    """Of partition 0, those before an offset."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partition = confluent_kafka.TopicPartition(topic, 0, before)
    admin.delete_records([partition])[partition].result(30)


def set_topic_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def produce(bootstrap: str, topic: str, values: Iterable[Any], **rest: Any) -> None:
    """Values that are neither bytes nor None go as JSON. `rest`: `partition`, `key`, `timestamp` (ms), `headers`."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for value in values:
        producer.produce(topic, _bytes(value), **rest)
    assert producer.flush(30) == 0


def transact(bootstrap: str, topic: str, transactional_id: str, rounds: Iterable[tuple[Iterable[Any], bool]]) -> None:
    """One transaction a round: its values, and whether it is committed or aborted after they are in the log."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)
    for values, commit in rounds:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, _bytes(value))
        assert producer.flush(30) == 0
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def committed(bootstrap: str, topic: str, partitions: int = 1) -> list[tuple[int, int, bytes | None]]:
    """Partition, offset and value of every record that a read_committed consumer sees, in order."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[tuple[int, int, bytes | None]] = []
    ended = 0
    while ended < partitions:
        message = consumer.poll(30)
        assert message is not None, "the consumer saw nothing for 30 s"
        if message.error() is None:
            found.append((*place_of(message), message.value()))
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended += 1
        else:
            raise AssertionError(message.error())
    consumer.close()
    return sorted(found, key=lambda one: one[:2])


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
