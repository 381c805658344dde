"""`odradek-pipeline audit` of what `lake` has written, and of a topic against its copy, from a broker over sockets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

import deltalake
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek import Broker
from odradek_pipeline.audit import broker_topic
from odradek_pipeline.audit.sides import AuditError
from tests.pipeline.lakes import Lake, create_topic, produce
from tests.unit.pipeline.audited import audit, faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(spark: SparkSession, broker: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, broker.bootstrap_servers, tmp_path / "lake")


@pytest.mark.parametrize("schema", ["raw", "json:id BIGINT"])
def test_a_lake_has_each_record_once_and_a_row_that_somebody_deleted_is_missing(
    lake: Lake, topic: str, schema: str
) -> None:
    create_topic(lake.bootstrap, topic)
    values = [b'{"id": %d}' % number for number in range(9)]
    produce(lake.bootstrap, topic, [*values, b"no JSON", None], key=b"k")
    assert lake.run(topic, schemas=[f"{topic}={schema}"]) == {}
    asked = ("--topic", topic, "--bootstrap", lake.bootstrap, "--lake", lake.path)
    status, result = audit(*asked)
    assert (status, faults(result), result["partitions"][0]["records"]) == (0, {}, 11)
    deltalake.DeltaTable(str(lake.path / topic)).delete("offset = 3")
    status, result = audit(*asked)
    assert (status, faults(result)) == (1, {(0, "missing"): [3]})


def test_a_table_of_one_row_a_key_cannot_be_audited_and_says_so(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [b"1", b"2"], key=b"k")
    assert lake.run(topic, upsert=(topic,)) == {}
    status, result = audit("--topic", topic, "--bootstrap", lake.bootstrap, "--lake", lake.path)
    assert status == 2
    assert "one row a key" in result["text"]


def test_a_copy_of_a_topic_that_lacks_a_record_and_has_another_instead_is_found(broker: Broker, topic: str) -> None:
    copy = f"{topic}-copy"
    for name, values in ((topic, [b"a", b"b", b"c"]), (copy, [b"a", b"x"])):
        create_topic(broker.bootstrap_servers, name)
        produce(broker.bootstrap_servers, name, values, key=b"k")
    sides = ("--bootstrap", broker.bootstrap_servers, "--against-bootstrap", broker.bootstrap_servers)
    status, result = audit("--topic", topic, *sides, "--against-topic", copy)
    found = faults(result)
    assert status == 1
    assert found[0, "missing"] == [2]
    assert 1 in found[0, "different"]


def test_an_end_of_the_partition_before_the_offset_that_is_wanted_is_no_end(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an unclean election: the new leader's log is shorter than the end that the audit was told."""
    create_topic(broker.bootstrap_servers, topic)
    produce(broker.bootstrap_servers, topic, [b"a", b"b", b"c"], key=b"k")
    monkeypatch.setattr(broker_topic, "TIMEOUT_S", 3.0)
    found = broker_topic.BrokerTopic(broker.bootstrap_servers, topic, {})
    with pytest.raises(AuditError, match="at offset 3: its log ends there, and had gone to 5: records were lost"):
        list(found.read(0, 0, 5, ("value",)))


def test_markers_and_aborted_records_at_the_end_are_read_to_the_end(broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap_servers, topic)
    produce(broker.bootstrap_servers, topic, [b"a"], key=b"k")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce(topic, b"aborted")
        assert producer.flush(30) == 0
        producer.abort_transaction(30)
    found = broker_topic.BrokerTopic(broker.bootstrap_servers, topic, {})
    assert found.extents() == {0: (0, 5)}
    parts = list(found.read(0, 0, 5, ("value",)))
    assert [one for part in parts for one in part.records.column("offset").to_pylist()] == [0]
    assert [int(one) for part in parts for one in part.aborted] == [1, 3]
    assert [int(one) for part in parts for one in part.markers] == [2, 4]


def test_an_insight_into_a_topic_at_a_broker_has_its_groups(broker: Broker, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap_servers, topic)
    produce(broker.bootstrap_servers, topic, [b"x" * 10] * 30, key=b"k")
    group = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic})
    group.commit(offsets=[TopicPartition(topic, 0, 12)], asynchronous=False)
    group.close()
    asked = ("--topic", topic, "--bootstrap", broker.bootstrap_servers, "--insight", "--html", tmp_path / "page.html")
    status, found = audit(*asked)
    assert (status, found["records"], found["keys"][0]["key"]) == (0, 30, "k")
    assert [(one["group"], one["lag"], one["dead"]) for one in found["groups"]] == [(topic, 18, False)]
    assert (tmp_path / "page.html").read_text().count("<svg") == 4
