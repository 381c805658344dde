"""`lake --upsert` with the schemas of a registry: keys are compared as they are read, tables grow with the ids."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")
pytest.importorskip("pyiceberg", reason="requirements-pipeline.txt is not installed")

import confluent_kafka

from odradek import Broker
from odradek_pipeline.files import Files
from odradek_pipeline.kafka import Admin
from odradek_pipeline.lake import partitioning
from odradek_pipeline.lake.ingest import IngestServices
from odradek_pipeline.lake.upsert import UpsertIngest
from odradek_pipeline.registry import Registry
from tests.pipeline import readers
from tests.pipeline.lakes import Lake, create_topic, produce
from tests.pipeline.registries import avro, prefixed, register, registry_broker
from tests.pipeline.test_lake_kills import PARTITIONS, Driver, jars_of, torment
from tests.pipeline.test_lake_registry_kills import REGISTRY_KILLS, RegistrySite
from tests.pipeline.test_lake_upsert import CUTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = pytest.mark.torture  # a batch is several merges: one format is enough but for `make torture`
TEXT = ["null", "string"]


def shape(name: str, /, **fields: Any) -> dict[str, Any]:
    """A schema of Avro's, in which what may be null is so by default."""
    made = [
        {"name": field, "type": kind} | ({"default": None} if kind == TEXT else {}) for field, kind in fields.items()
    ]
    return {"type": "record", "name": name, "fields": made}


class Sides:
    """A topic's registered schemas of keys and values, oldest first; writes with the one that is asked for."""

    def __init__(self, bootstrap: str, registry: Broker, topic: str) -> None:
        self._bootstrap, self._registry, self._topic = bootstrap, registry, topic
        self._known: dict[str, list[tuple[int, dict[str, Any]]]] = {"key": [], "value": []}

    def add(self, side: str, schema: dict[str, Any]) -> int:
        schema_id = register(self._registry, f"{self._topic}-{side}", schema)
        self._known[side].append((schema_id, schema))
        return schema_id

    def written(self, side: str, content: Mapping[str, Any] | None, version: int = -1) -> bytes | None:
        if content is None:
            return None
        schema_id, schema = self._known[side][version]
        return prefixed(schema_id, avro(schema, content))

    def send(
        self, key: Mapping[str, Any] | bytes | None, value: Mapping[str, Any] | bytes | None, version: int
    ) -> None:
        """With schemas of one version; bytes as they are."""
        given = key if isinstance(key, bytes) else self.written("key", key, version)
        content = value if isinstance(value, bytes) else self.written("value", value, version)
        produce(self._bootstrap, self._topic, [content], key=given, partition=0)


@pytest.fixture(scope="module")
def registry_of(spark: SparkSession) -> Iterator[Broker]:
    with registry_broker() as broker:
        yield broker


@pytest.fixture
def lake(spark: SparkSession, registry_of: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, registry_of.bootstrap_servers, tmp_path / "lake", Registry(registry_of.registry_urls[0]))


@pytest.fixture
def place(request: pytest.FixtureRequest, lake: Lake, warehouse: Path) -> tuple[str, Path]:
    """A format, and the folder that its tables are in."""
    table_format: str = request.param
    return table_format, lake.path if table_format == "delta" else warehouse


def asked(topic: str, table_format: str) -> dict[str, Any]:
    sides = {"schemas": [f"{topic}=avro"], "key_schemas": [f"{topic}=avro"]}
    return sides | {"table_format": table_format, "upsert": (topic,)}


def by_key(table_format: str, table: Path) -> dict[tuple[Any, ...], Any]:
    rows = readers.rows(table_format, table)
    found = {tuple(row["key"].values()): row["value"] for row in rows}
    assert len(found) == len(rows), "a key has more than one row"
    return found


def reasons(table_format: str, table: Path) -> dict[int, str]:
    return {
        row["offset"]: row["reason"]
        for row in readers.rows(table_format, table.with_name(f"{table.name}@dead-letters"))
    }


@pytest.mark.parametrize("place", ["iceberg", pytest.param("delta", marks=LONG)], indirect=True)
def test_a_batch_that_was_cut_off_is_read_with_the_schemas_that_it_had(
    lake: Lake, registry_of: Broker, topic: str, place: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short form of the kills. What the registry did not know at the first attempt stays a dead letter.

    The batch has keys of a newer schema, which are those of the older one where they have nothing more.
    """
    table_format, folder = place
    given = asked(topic, table_format)
    create_topic(lake.bootstrap, topic)
    sides = Sides(lake.bootstrap, registry_of, topic)
    sides.add("key", shape("K", id="long"))
    sides.add("value", shape("V", n="long"))
    sides.send({"id": 1}, {"n": 1}, 0)
    sides.send({"id": 2}, {"n": 1}, 0)
    sides.send(None, {"n": 1}, 0)
    sides.send(b"x", {"n": 1}, 0)
    assert lake.run(topic, **given) == {}
    assert by_key(table_format, folder / topic) == {(1,): {"n": 1}, (2,): {"n": 1}}
    sides.add("key", shape("K", id="long", region=TEXT))
    sides.add("value", shape("V", n="long", s=TEXT))
    later = shape("V", n="long", t=TEXT) | {"doc": topic}
    next_id = register(registry_of, f"{topic}-other", shape("V", n="long") | {"doc": topic}) + 1
    unknown = prefixed(next_id, avro(later, {"n": 3, "t": "x"}))
    for key, value in ((1, {"n": 2, "s": "x"}), (1, unknown), (2, None), (3, {"n": 1, "s": None})):
        sides.send({"id": key, "region": None}, value, 1)
    with monkeypatch.context() as patched:
        CUTS["rows"](patched)
        assert "cut off" in lake.run(topic, **given, attempts=1)[topic]
    assert sides.add("value", later) == next_id
    assert lake.run(topic, **given) == {}
    expected = {(1, None): {"n": 2, "s": "x"}, (3, None): {"n": 1, "s": None}}
    assert by_key(table_format, folder / topic) == expected
    letters = {2: "no key", 3: "key: no schema prefix", 5: f"schema id {next_id} is unknown"}
    assert reasons(table_format, folder / topic) == letters


@LONG
@pytest.mark.parametrize("place", ["delta", "iceberg"], indirect=True)
def test_a_late_batch_with_keys_of_an_older_schema_revives_no_deleted_key(
    lake: Lake, registry_of: Broker, topic: str, place: tuple[str, Path]
) -> None:
    """The first batch has no key and no value whose schema is known."""
    table_format, folder = place
    given = asked(topic, table_format)
    settings = lake.settings(topics=(topic,), **given)
    create_topic(lake.bootstrap, topic)
    sides = Sides(lake.bootstrap, registry_of, topic)
    sides.send(b"x", None, 0)
    assert lake.run(topic, **given) == {}
    sides.add("key", shape("K", id="long"))
    sides.add("value", shape("V", n="long"))
    for number in (1, 2, 3):
        sides.send({"id": number}, {"n": number}, 0)
    sides.send({"id": 2}, None, 0)
    assert lake.run(topic, **given) == {}
    assert by_key(table_format, folder / topic) == {(1,): {"n": 1}, (3,): {"n": 3}}
    with Admin(lake.spark, settings.cluster) as admin:
        around = IngestServices(lake.spark, Files(lake.spark), admin, settings, lambda *_: None, lake.registry)
        late = UpsertIngest(around, topic)
        assert late.prepare()
        sides.add("key", shape("K", id="long", region=TEXT))
        sides.add("value", shape("V", n="long", s=TEXT))
        sides.send({"id": 1, "region": None}, {"n": 11, "s": "grown"}, 1)
        sides.send({"id": 3, "region": "eu"}, {"n": 33, "s": None}, 1)
        sides.send({"id": 3, "region": None}, None, 1)
        sides.send({"id": 4, "region": "eu"}, None, 1)
        assert lake.run(topic, **given) == {}
        expected = {(1, None): {"n": 11, "s": "grown"}, (3, "eu"): {"n": 33, "s": None}}
        assert by_key(table_format, folder / topic) == expected
        reader = lake.spark.read.format("kafka").options(**settings.cluster.connector_options())
        late._write(reader.option("subscribe", topic).load().where("offset < 5"), 1)
    assert by_key(table_format, folder / topic) == expected


def test_a_table_is_divided_by_fields_that_only_the_first_batchs_schemas_tell(
    lake: Lake, registry_of: Broker, topic: str, warehouse: Path
) -> None:
    """`--partition-by` of a registry's keys and values; a change of it is checked against the table."""

    def run(spec: str) -> dict[str, str]:
        return lake.run(topic, **asked(topic, "iceberg"), partitions=partitioning.parse([f"{topic}={spec}"]))

    create_topic(lake.bootstrap, topic)
    sides = Sides(lake.bootstrap, registry_of, topic)
    sides.add("key", shape("K", id="long"))
    sides.add("value", shape("V", n="long", country=TEXT))
    for number in range(3):
        sides.send({"id": number}, {"n": number, "country": "CZ" if number else None}, 0)
    assert "a field in it may, such as key.id" in run("bucket(4, key)")[topic]
    assert not (warehouse / topic).exists()
    assert run("value.country, bucket(4, key.id)") == {}
    sides.send({"id": 1}, {"n": 7, "country": "AT"}, 0)
    assert run("value.country, bucket(4, key.id)") == {}
    assert by_key("iceberg", warehouse / topic) == {
        (0,): {"n": 0, "country": None},
        (1,): {"n": 7, "country": "AT"},
        (2,): {"n": 2, "country": "CZ"},
    }
    spec = readers.iceberg(warehouse / topic).spec()
    assert [str(field.transform) for field in spec.fields] == ["identity", "bucket[4]"]
    assert "the table has no field value.nosuch" in run("value.nosuch")[topic]


def test_an_envelope_of_debezium_with_a_schema_is_a_change_of_its_row(
    lake: Lake, registry_of: Broker, topic: str
) -> None:
    """As Debezium writes it with a converter for a registry: `before` and `after` are of one type."""
    row = shape("Row", id="long", name=TEXT)
    envelope = shape("Envelope", op="string", ts_ms="long")
    envelope["fields"] += [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Row"]}]
    create_topic(lake.bootstrap, topic)
    sides = Sides(lake.bootstrap, registry_of, topic)
    sides.add("key", shape("K", id="long"))
    sides.add("value", envelope)
    ana, bob = ({"id": number, "name": name} for number, name in ((1, "Ana"), (2, "Bob")))
    for key, op, before, after in ((1, "c", None, ana), (2, "r", None, bob), (1, "u", ana, ana | {"name": "Eva"})):
        sides.send({"id": key}, {"op": op, "ts_ms": 1, "before": before, "after": after}, 0)
    sides.send({"id": 2}, {"op": "d", "ts_ms": 1, "before": bob, "after": None}, 0)
    sides.send({"id": 2}, None, 0)
    sides.send({"id": 3}, {"op": "u", "ts_ms": 1, "before": None, "after": None}, 0)
    assert lake.run(topic, **asked(topic, "delta"), envelopes={topic: "debezium"}) == {}
    assert by_key("delta", lake.path / topic) == {(1,): {"id": 1, "name": "Eva"}}
    assert reasons("delta", lake.path / topic) == {5: "a Debezium envelope without after"}


@LONG
def test_raw_keys_are_compared_as_bytes_and_keys_with_maps_are_refused(
    lake: Lake, registry_of: Broker, topic: str
) -> None:
    create_topic(lake.bootstrap, topic)
    sides = Sides(lake.bootstrap, registry_of, topic)
    first = sides.add("value", shape("V", n="long"))
    for key, value in ((b"a", {"n": 1}), (b"b", {"n": 1}), (b"a", {"n": 2}), (b"b", None)):
        sides.send(key, value, 0)
    assert lake.run(topic, schemas=[f"{topic}=avro"], upsert=(topic,)) == {}
    (row,) = readers.rows("delta", lake.path / topic)
    assert (row["key"], row["schema_id"], row["value"]) == (b"a", first, {"n": 2})
    other = f"{topic}-maps"
    create_topic(lake.bootstrap, other)
    mapped = Sides(lake.bootstrap, registry_of, other)
    mapped.add("key", shape("K", m={"type": "map", "values": "long"}))
    mapped.add("value", shape("V", n="long"))
    mapped.send({"m": {"x": 1}}, {"n": 1}, 0)
    assert lake.run(other, **asked(other, "delta")) == {}
    (reason,) = reasons("delta", lake.path / other).values()
    assert "the keys of rows are compared, which maps cannot be" in reason


class KeyedRegistrySite(RegistrySite):
    """Each `fill` brings a schema of keys and one of values; a third of the records are tombstones."""

    schemas = "avro", "avro"

    def __init__(self, broker: Broker, registry: Broker, topic: str, folder: Path, jars: str) -> None:
        super().__init__(broker, registry, topic, folder, jars)
        self._sides = Sides(broker.bootstrap_servers, registry, topic)
        self._fills = 0
        self._chance = random.Random(17)
        self._history: set[tuple[int, int]] = set()
        self._newest: dict[int, int] = {}

    def fill(self, transactions: int) -> None:
        more = {f"f{each}": TEXT for each in range(self._fills)}
        self._sides.add("key", shape("K", id="long", **more))
        self._sides.add("value", shape("V", n="long", **more))
        self._fills += 1
        producer = confluent_kafka.Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for number in itertools.islice(self._values, transactions * 15):
            key, version = self._chance.randrange(30), max(0, self._fills - self._chance.randint(1, 3))
            value = None if self._chance.random() < 0.3 else self._sides.written("value", {"n": number}, version)
            producer.produce(self.topic, value, self._sides.written("key", {"id": key}, version), key % PARTITIONS)
            if value is None:
                self._newest.pop(key, None)
            else:
                self._newest[key] = number
                self._history.add((key, number))
        assert producer.flush(30) == 0

    def start(self, *options: str, master: str = "local[2]") -> Driver:
        return super().start(*options, "--upsert", self.topic, "--keep-snapshots", "3", master=master)

    def check(self, whole: bool = True) -> None:
        rows = readers.rows("delta", self.table)
        found = {row["key"]["id"]: row["value"]["n"] for row in rows}
        assert len(found) == len(rows), "a key has more than one row"
        assert all(set(row["key"].values()) <= {row["key"]["id"], None} for row in rows)
        assert set(found.items()) <= self._history
        assert not whole or found == self._newest


@LONG
@pytest.mark.timeout(3600)
def test_upserts_with_schema_ids_through_kills(
    spark: SparkSession, own_broker: Broker, registry_of: Broker, topic: str, tmp_path: Path
) -> None:
    site = KeyedRegistrySite(own_broker, registry_of, topic, tmp_path, jars_of(spark))
    kinds = ["driver and JVM", "broker", "registry", "JVM", "driver and JVM", "JVM"]
    torment(site, kinds, random.Random(19), REGISTRY_KILLS)
    site.check()
