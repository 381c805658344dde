"""`lake --upsert`: one row a key, whatever comes again, late or without a key; read by delta-rs and pyiceberg."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")
pytest.importorskip("pyiceberg", reason="requirements-pipeline.txt is not installed")

import confluent_kafka

from odradek import Broker
from odradek_pipeline.files import Files
from odradek_pipeline.kafka import Admin
from odradek_pipeline.lake import upsert
from odradek_pipeline.lake.ingest import IngestServices
from odradek_pipeline.lake.upsert import UpsertIngest
from tests.pipeline import readers
from tests.pipeline.lakes import Lake, create_topic, set_topic_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Change = tuple[bytes | None, Any]


@pytest.fixture
def lake(spark: SparkSession, broker: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, broker.bootstrap_servers, tmp_path / "lake")


LONG = pytest.mark.torture  # a batch is several merges: one format is enough but for `make torture`


@pytest.fixture
def place(request: pytest.FixtureRequest, lake: Lake, warehouse: Path) -> tuple[str, Path]:
    """A format, and the folder that its tables are in."""
    table_format: str = request.param
    return table_format, lake.path if table_format == "delta" else warehouse


def send(lake: Lake, topic: str, changes: Iterable[Change]) -> None:
    """By key to partitions, as every producer does."""
    producer = confluent_kafka.Producer({"bootstrap.servers": lake.bootstrap})
    for key, value in changes:
        encoded = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        producer.produce(topic, encoded, key=key)
    assert producer.flush(30) == 0


def kept(changes: Iterable[Change]) -> dict[bytes, Any]:
    """The model: what is left when each change is made in turn."""
    found: dict[bytes, Any] = {}
    for key, value in changes:
        if key is None or value == b"bad":
            continue
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


def by_key(rows: list[dict[str, Any]]) -> dict[bytes, Any]:
    found = {row["key"]: row["value"] for row in rows}
    assert len(found) == len(rows), "a key has more than one row"
    return found


def some_changes(seed: int, count: int) -> list[Change]:
    chance = random.Random(seed)
    keys = [b"k%d" % number for number in range(12)]
    return [(chance.choice(keys), None if chance.random() < 0.3 else {"n": number}) for number in range(count)]


@pytest.mark.parametrize("place", [pytest.param("delta", marks=LONG), "iceberg"], indirect=True)
def test_the_newest_of_each_key_stays_and_a_null_value_deletes(lake: Lake, topic: str, place: tuple[str, Path]) -> None:
    """Also when the last batch is repeated, when all of them are, and when the schema grows."""
    table_format, folder = place
    asked = {"table_format": table_format, "upsert": (topic,), "schemas": [f"{topic}=json:n INT"]}
    create_topic(lake.bootstrap, topic, 2)
    changes: list[Change] = [*some_changes(1, 60), (None, {"n": 1}), (None, None), (b"k1", b"bad"), (b"k2", b"null")]
    send(lake, topic, changes)
    assert lake.run(topic, **asked, max_offsets=50) == {}
    expected = kept(changes) | {b"k2": None}
    assert by_key(readers.rows(table_format, folder / topic)) == expected
    letters = readers.rows(table_format, folder / f"{topic}@dead-letters")
    assert sorted((row["key"] or b"", row["reason"]) for row in letters) == [
        (b"", "no key"),
        (b"", "no key"),
        (b"k1", "not JSON"),
    ]

    commits = lake.path / "@checkpoints" / topic / "records" / "0" / "commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink()
    send(lake, topic, [(b"k1", {"n": -1, "s": "grown"}), (b"k3", None)])
    asked["schemas"] = [f"{topic}=json:s STRING, n INT"]
    assert lake.run(topic, **asked) == {}
    found = by_key(readers.rows(table_format, folder / topic))
    assert found.pop(b"k1") == {"n": -1, "s": "grown"}
    expected = {key: value and value | {"s": None} for key, value in expected.items() if key not in (b"k1", b"k3")}
    assert found == expected
    assert len(readers.rows(table_format, folder / f"{topic}@dead-letters")) == 3
    assert lake.reporter.topics[topic].dead_letters >= 3


@pytest.mark.parametrize("place", [pytest.param("iceberg", marks=LONG), "delta"], indirect=True)
def test_a_late_batch_revives_no_deleted_key(lake: Lake, topic: str, place: tuple[str, Path]) -> None:
    """As another driver may write one, or this one after its checkpoint was restored from an older copy."""
    table_format, folder = place
    create_topic(lake.bootstrap, topic)
    send(lake, topic, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", b"1")])
    asked = {"table_format": table_format, "upsert": (topic,)}
    assert lake.run(topic, **asked) == {}
    settings = lake.settings(topics=(topic,), **asked)
    reader = lake.spark.read.format("kafka").options(**settings.cluster.connector_options())
    late = reader.option("subscribe", topic).load().where("offset < 2")
    with Admin(lake.spark, settings.cluster) as admin:
        around = IngestServices(lake.spark, Files(lake.spark), admin, settings, lambda *_: None)
        ingest = UpsertIngest(around, topic)
        assert ingest.prepare()
        ingest._write(late, 7)
    assert by_key(readers.rows(table_format, folder / topic)) == {b"a": b"2", b"c": b"1"}
    assert [row["key"] for row in readers.rows(table_format, folder / f"{topic}@deleted-keys")] == [b"b"]


@pytest.mark.parametrize("place", [pytest.param("iceberg", marks=LONG), "delta"], indirect=True)
@pytest.mark.parametrize("failing", ["rows", pytest.param("dead letters", marks=LONG)])
def test_a_failure_between_the_tables_of_a_batch_is_made_good(
    lake: Lake, topic: str, place: tuple[str, Path], failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short form of the kills: after the deleted keys, and after the rows but before the dead letters."""
    table_format, folder = place
    asked = {"table_format": table_format, "upsert": (topic,)}
    create_topic(lake.bootstrap, topic)
    changes: list[Change] = [(b"a", b"1"), (b"b", b"1")]
    send(lake, topic, changes)
    assert lake.run(topic, **asked) == {}
    more: list[Change] = [(b"a", b"3"), (b"b", None), (b"c", b"1"), (None, b"x")]
    send(lake, topic, more)
    with monkeypatch.context() as patched:
        CUTS[failing](patched)
        assert "cut off" in lake.run(topic, **asked, attempts=1)[topic]
    assert lake.run(topic, **asked) == {}
    assert by_key(readers.rows(table_format, folder / topic)) == kept(changes + more)
    assert [row["reason"] for row in readers.rows(table_format, folder / f"{topic}@dead-letters")] == ["no key"]


def _merge_of_the_rows(patched: pytest.MonkeyPatch) -> None:
    real: Callable[..., None] = upsert.merge

    def merge(table: Any, changes: Any) -> None:
        if not table.name.endswith("@deleted-keys"):
            raise RuntimeError("cut off")
        real(table, changes)

    patched.setattr(upsert, "merge", merge)


def _dead_letters(patched: pytest.MonkeyPatch) -> None:
    def write_rest(*_: Any, **__: Any) -> None:
        raise RuntimeError("cut off")

    patched.setattr(UpsertIngest, "_write_rest", write_rest)


CUTS = {"rows": _merge_of_the_rows, "dead letters": _dead_letters}


def test_a_debezium_envelope_is_a_change_of_its_row(lake: Lake, topic: str) -> None:
    """With Connect's schemas around it or without; delete and tombstone; what is no change is a dead letter."""

    def change(op: str, after: Any, before: Any = None) -> dict[str, Any]:
        return {"op": op, "before": before, "after": after, "source": {"lsn": 7}, "ts_ms": 1, "transaction": None}

    create_topic(lake.bootstrap, topic)
    one, two = {"id": 1, "price": 0.5}, {"id": 2, "price": 2.5}
    sent: list[Change] = [
        (b"1", change("r", one)),
        (b"2", {"schema": {"type": "struct"}, "payload": change("c", two)}),
        (b"1", change("u", one | {"price": 1.5}, one)),
        (b"3", change("c", {"id": 3, "price": 3})),
        (b"3", {"schema": {}, "payload": change("d", None, two)}),
        (b"3", None),
        (b"4", change("c", {"id": 4, "price": 4, "more": 1})),
        (b"4", change("d", None, {"id": 4})),
        (b"5", {"id": 5}),
        (b"6", change("u", None)),
        (b"7", change("m", None)),
        (b"8", change("c", {"id": "x"})),
        (None, change("t", None)),
    ]
    send(lake, topic, sent)
    asked = {"upsert": (topic,), "envelopes": {topic: "debezium"}}
    assert lake.run(topic, schemas=[f"{topic}=json:id INT NOT NULL, price DOUBLE"], **asked) == {}
    assert by_key(readers.rows("delta", lake.path / topic)) == {b"1": {"id": 1, "price": 1.5}, b"2": two}
    letters = {row["key"]: row["reason"] for row in readers.rows("delta", lake.path / f"{topic}@dead-letters")}
    assert letters == {
        b"5": "no Debezium envelope: it has no op",
        b"6": "a Debezium envelope without after",
        b"7": "a Debezium envelope whose op changes no row",
        b"8": "JSON that does not fit the schema",
        None: "no key",
    }
    assert lake.reporter.topics[topic].unknown == 1, "a field of the row that its schema does not name"


@LONG
def test_the_row_of_an_envelope_is_inferred(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    rows = [{"id": 1, "price": 0.5}, {"id": 2, "name": "x"}]
    plain, wrapped = ({"op": "c", "before": None, "after": row, "ts_ms": 1} for row in rows)
    send(lake, topic, [(b"1", plain), (b"3", {"op": "d", "before": {"id": 3}, "after": None}), (b"3", None)])
    asked = {"upsert": (topic,), "envelopes": {"*": "debezium"}, "schemas": [f"{topic}=json"]}
    assert lake.run(topic, **asked) == {}
    assert by_key(readers.rows("delta", lake.path / topic)) == {b"1": rows[0]}
    other = f"{topic}-wrapped"
    create_topic(lake.bootstrap, other)
    send(lake, other, [(b"2", {"schema": {"type": "struct"}, "payload": wrapped})])
    assert lake.run(other, **asked | {"upsert": (other,), "schemas": [f"{other}=json"]}) == {}
    assert by_key(readers.rows("delta", lake.path / other)) == {b"2": rows[1]}


@LONG
def test_compacted_topics_are_upserted_if_asked_and_a_table_stays_what_it_is(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    set_topic_config(lake.bootstrap, topic, "cleanup.policy", "compact,delete")
    plain = f"{topic}-plain"
    create_topic(lake.bootstrap, plain)
    for name in (topic, plain):
        send(lake, name, [(b"a", b"1"), (b"a", b"2")])
    assert lake.run(topic, plain, upsert_compacted=True) == {}
    assert by_key(readers.rows("delta", lake.path / topic)) == {b"a": b"2"}
    assert len(readers.rows("delta", lake.path / plain)) == 2
    assert "give --upsert" in lake.run(topic)[topic]
    assert "has every record" in lake.run(plain, upsert=(plain,))[plain]
    shutil.rmtree(lake.path / "@checkpoints" / topic)
    assert "its table exists" in lake.run(topic, upsert=(topic,))[topic]


@LONG
def test_an_envelope_without_a_schema_of_its_row_is_refused_before_anything_is_written(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    send(lake, topic, [(b"k", b"1")])
    failed = lake.run(topic, upsert=(topic,), envelopes={"*": "debezium"})
    assert f"--envelope needs the schema of the row: --schema {topic}=json" in failed[topic]
    assert not (lake.path / topic).exists()
