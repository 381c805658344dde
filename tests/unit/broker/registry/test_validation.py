"""`confluent.value.schema.validation`: records that name no schema of their subject are refused with INVALID_RECORD."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig

from broker.config.broker_config import BrokerConfig
from broker.config.resource_configs import check_schema_validation
from broker.registry.host import RegistryHost
from broker.registry.validation import MOST_SCHEMAS, record_names
from broker.testkit.control.endpoint import ControlError
from odradek.schemas.framing import KEY_HEADER, VALUE_HEADER
from odradek.schemas.lookup import AVRO, JSON, PROTOBUF, Source
from protocol.errors import InvalidConfiguration
from protocol.records.batch import HEADER_SIZE
from protocol.records.build import Record, build_batch
from protocol.records.compression import Compression, compress
from tests.doubles.clock import settle
from tests.doubles.workers import LoopWorkers
from tests.unit.broker.registry.rig import record
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control
from tests.unit.broker.testkit.control.test_snapshots import call
from tests.unit.broker.wire import NOW, answer, batch, produce
from tests.unit.storage.log.validator_cases import with_section

CONFIG = {"schema.registry.listeners": "http://127.0.0.1:0"}
VALUE = "confluent.value.schema.validation"
KEY = "confluent.key.schema.validation"
STRATEGY = "confluent.value.subject.name.strategy"
SUBJECT = "io.confluent.kafka.serializers.subject"
Content = bytes | None
Pairs = Sequence[tuple[Content, Content, tuple[tuple[bytes, bytes], ...]]]


class Broker(Rig):
    """A node with a registry, whose topics may validate schemas."""

    async def topic(self, name: str, configs: Mapping[str, str]) -> None:
        RegistryHost(self.node)
        await self.create(name, 1, **configs)

    async def register(self, subject: str, schema: Any, **more: Any) -> int:
        assert self.node.registry is not None
        text = schema if isinstance(schema, str) else json.dumps(schema)
        status, found = await self.node.registry.ask("POST", f"/subjects/{subject}/versions", {"schema": text, **more})
        assert status == 200, found
        schema_id: int = found["id"]
        return schema_id

    async def send(self, topic: str, *values: Content, **fields: Any) -> Any:
        """The partition's answer to a batch of records with these values."""
        return await self.send_batch(topic, batch(*[value or b"" for value in values], **fields))

    async def send_all(self, topic: str, records: Pairs, **fields: Any) -> Any:
        made = [Record(at, NOW, key, value, headers) for at, (key, value, headers) in enumerate(records)]
        return await self.send_batch(topic, bytes(build_batch(made, **fields)))

    async def send_batch(self, topic: str, sent: bytes) -> Any:
        client = self.connect()
        client.send("produce", 9, **produce(topic, {0: sent}))
        while not (replies := client.replies()):
            await settle()  # the first time, a thread imports what is needed
        return answer(replies[0], "produce", 9).responses[0].partition_responses[0]


@asynccontextmanager
async def broker(**configs: str) -> AsyncIterator[Broker]:
    """A broker with the topic `orders`."""
    async with Broker(config=CONFIG) as rig:
        await rig.topic("orders", configs or {VALUE: "true"})
        yield rig


def value_of(schema_id: int, payload: bytes = b"x") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def outcome(told: Any) -> str:
    return str(told.error_code.name)


async def test_a_record_that_names_a_schema_of_its_subject_is_appended() -> None:
    async with broker() as rig:
        first = await rig.register("orders-value", record("a:int"))
        second = await rig.register("orders-value", record("a:int", "b:int=1"))
        told = await rig.send("orders", value_of(first), value_of(second))
        assert (outcome(told), told.base_offset) == ("none", 0)


async def test_the_refused_records_of_a_batch_are_named_by_their_index() -> None:
    async with broker() as rig:
        known = await rig.register("orders-value", record("a:int"))
        other = await rig.register("mails-value", record("b:int"))
        sent = (value_of(known), value_of(99), b"plain", value_of(other), b"")
        told = await rig.send("orders", *sent)
        assert outcome(told) == "invalid_record"
        assert told.error_message.startswith("4 records were refused. record 1: the value names schema 99, which the")
        assert [(one.batch_index, one.batch_index_error_message) for one in told.record_errors] == [
            (1, "the value names schema 99, which the registry does not have"),
            (2, "the value names no schema: neither by an id in front, nor by the header __value_schema_id"),
            (3, f"the value names schema {other}, which is none of subject orders-value"),
            (4, "the value names no schema: neither by an id in front, nor by the header __value_schema_id"),
        ]
        partition = rig.node.replicas.get("orders", 0)
        assert partition is not None and partition.log_end_offset == 0


@pytest.mark.parametrize("text", ["TRUE", " true "])
async def test_the_configurations_may_be_written_as_kafka_takes_them(text: str) -> None:
    async with broker(**{VALUE: text, STRATEGY: f" {SUBJECT}.RecordNameStrategy "}) as rig:
        known = await rig.register("Order", record("a:int", name="Order"))
        assert outcome(await rig.send("orders", value_of(known))) == "none"
        assert outcome(await rig.send("orders", b"plain")) == "invalid_record"


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD, Compression.LZ4, Compression.SNAPPY])
async def test_compressed_batches_are_looked_into(compression: Compression) -> None:
    async with broker() as rig:
        known = await rig.register("orders-value", record("a:int"))
        right = await rig.send("orders", value_of(known), compression=compression)
        wrong = await rig.send("orders", value_of(known), value_of(9), compression=compression)
        assert (outcome(right), outcome(wrong)) == ("none", "invalid_record")
        assert [one.batch_index for one in wrong.record_errors] == [1]


async def test_keys_are_validated_by_themselves_and_null_needs_no_schema() -> None:
    async with broker(**{KEY: "true"}) as rig:
        known = await rig.register("orders-key", '"string"')
        right = await rig.send_all("orders", [(value_of(known), b"any", ()), (None, b"any", ()), (None, None, ())])
        wrong = await rig.send_all("orders", [(b"k", None, ())])
        assert (outcome(right), outcome(wrong)) == ("none", "invalid_record")
        assert "the key names no schema" in wrong.error_message
    async with broker() as rig:
        assert outcome(await rig.send_all("orders", [(b"k", None, ())])) == "none"


async def test_a_header_names_the_schema_by_its_guid() -> None:
    async with broker(**{KEY: "true", VALUE: "true"}) as rig:
        await rig.register("orders-value", '"string"')
        await rig.register("orders-key", '"int"')
        assert rig.node.registry is not None
        guids = [
            b"\1" + bytes.fromhex((await rig.node.registry.ask("GET", path))[1]["guid"].replace("-", ""))
            for path in ("/subjects/orders-key/versions/1", "/subjects/orders-value/versions/1")
        ]
        of_key, of_value = guids
        names = KEY_HEADER.encode(), VALUE_HEADER.encode()
        right = await rig.send_all("orders", [(b"k", b"v", tuple(zip(names, guids, strict=True)))])
        swapped = await rig.send_all("orders", [(b"k", b"v", ((names[0], of_value), (names[1], of_key)))])
        unknown = await rig.send_all("orders", [(None, b"v", ((names[1], b"\1" + bytes(16)),))])
        assert [outcome(one) for one in (right, swapped, unknown)] == ["none", "invalid_record", "invalid_record"]
        assert len(swapped.record_errors) == 2


async def test_a_schema_that_is_deleted_counts_no_more_and_one_that_comes_counts_at_once() -> None:
    async with broker() as rig:
        known = await rig.register("orders-value", record("a:int"))
        assert rig.node.registry is not None
        assert outcome(await rig.send("orders", value_of(known))) == "none"
        await rig.node.registry.ask("DELETE", "/subjects/orders-value")
        assert outcome(await rig.send("orders", value_of(known))) == "invalid_record"
        await rig.register("orders-value", record("a:int"))
        assert outcome(await rig.send("orders", value_of(known))) == "none"


PROTO = 'syntax = "proto3"; package shop; message Order { int32 id = 1; message Line { int32 n = 1; } } message Bill {}'


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (Source(AVRO, json.dumps(record("a:int", name="Order", namespace="shop"))), {"shop.Order"}),
        (Source(AVRO, json.dumps(record("a:int", name="shop.Order", namespace="other"))), {"shop.Order"}),
        (Source(AVRO, json.dumps(record("a:int", name="Order"))), {"Order"}),
        (Source(AVRO, '"string"'), set()),
        (Source(AVRO, "string"), set()),
        (Source(AVRO, '["null", "int"]'), set()),
        (Source(JSON, '{"title": "Order"}'), {"Order"}),
        (Source(JSON, "{}"), set()),
        (Source(PROTOBUF, PROTO), {"shop.Order", "shop.Order.Line", "shop.Bill"}),
        (Source(PROTOBUF, 'syntax = "proto3"; message M {}'), {"M"}),
    ],
)
def test_the_names_of_a_schemas_records(source: Source, names: set[str]) -> None:
    assert record_names(source) == names


@pytest.mark.parametrize(("strategy", "prefix"), [("RecordNameStrategy", ""), ("TopicRecordNameStrategy", "orders-")])
async def test_subjects_may_be_named_by_the_record(strategy: str, prefix: str) -> None:
    async with broker(**{VALUE: "true", STRATEGY: f"{SUBJECT}.{strategy}"}) as rig:
        order = record("a:int", name="Order", namespace="shop")
        known = await rig.register(f"{prefix}shop.Order", order)
        message = await rig.register(f"{prefix}shop.Bill", PROTO, schemaType="PROTOBUF")
        elsewhere = await rig.register("orders-value", record("a:int", name="Other"))
        nameless = await rig.register("orders-value2", '"string"')
        assert outcome(await rig.send("orders", value_of(known), value_of(message))) == "none"
        wrong = await rig.send("orders", value_of(elsewhere), value_of(nameless))
        assert [one.batch_index_error_message for one in wrong.record_errors] == [
            f"the value names schema {elsewhere}, which is none of subject {prefix}Other",
            f"the value names schema {nameless}, which is none of subject a record's name, which it does not have",
        ]


async def test_a_batch_that_cannot_be_read_is_refused_as_ever() -> None:
    async with broker() as rig:
        sent = bytearray(batch(b"v"))
        sent[-1] ^= 1
        assert outcome(await rig.send_batch("orders", bytes(sent))) == "corrupt_message"
        assert outcome(await rig.send_batch("orders", b"")) == "invalid_record"
        torn = bytearray(batch(b"v", compression=Compression.GZIP))
        assert outcome(await rig.send_batch("orders", bytes(torn[:70]))) == "invalid_record"


async def test_a_batch_whose_records_other_topics_take_unread_is_refused() -> None:
    section = bytearray(batch(b"plain", b"plain")[HEADER_SIZE:])
    section[0] += 2  # the first record's size is not that of its fields, which Kafka does not look at
    damaged = with_section(NOW, compress(Compression.GZIP, section), 2, int(Compression.GZIP))
    async with broker() as rig:
        await rig.topic("others", {})
        assert outcome(await rig.send_batch("others", damaged)) == "none"
        refused = await rig.send_batch("orders", damaged)
        assert outcome(refused) == "invalid_record"
        assert refused.error_message.startswith("The schemas that the records name cannot be read: ")


async def test_a_batch_may_name_only_so_many_schemas() -> None:
    async with broker() as rig:
        wrong = await rig.send("orders", *(value_of(number) for number in range(MOST_SCHEMAS + 1)))
        assert (outcome(wrong), len(wrong.record_errors)) == ("invalid_record", 1)
        assert f"more than {MOST_SCHEMAS} schemas" in wrong.error_message


async def test_of_many_refused_records_the_first_thousand_are_named() -> None:
    async with broker() as rig:
        wrong = await rig.send("orders", *[b"plain"] * 1001)
        assert len(wrong.record_errors) == 1000
        assert wrong.error_message.startswith("1001 records were refused")


async def test_while_the_registry_cannot_answer_a_producer_is_told_to_try_again() -> None:
    async with broker() as rig:
        known = await rig.register("orders-value", record("a:int"))
        await rig.configure("_schemas", **{"cleanup.policy": "delete"})
        refused = await rig.send("orders", value_of(known))
        assert outcome(refused) == "request_timed_out"
        assert "The schemas of orders are not known now: " in refused.error_message
        await rig.configure("_schemas", **{"cleanup.policy": "compact"})
        assert outcome(await rig.send("orders", value_of(known))) == "none"


async def test_the_test_kit_writes_no_wrong_records_either() -> None:
    async with broker() as rig:
        known = await rig.register("orders-value", '"string"')
        given = [{"json": "v", "schema": {"id": known}}]
        assert (await control(rig, "POST", "/topics/orders/records", records=given))["records"]
        with pytest.raises(ControlError, match=r"INVALID_RECORD.*record 0: the value names no schema"):
            await control(rig, "POST", "/topics/orders/records", records=[{"value": "v"}])


async def test_other_topics_are_not_looked_into() -> None:
    called: list[str] = []

    class Noting(LoopWorkers):
        async def call(self, work):  # type: ignore[no-untyped-def]
            called.append(getattr(getattr(work, "func", work), "__name__", ""))
            return await super().call(work)

    async with Broker(config=CONFIG, workers=Noting()) as rig:
        await rig.topic("orders", {VALUE: "false"})
        assert outcome(await rig.send("orders", b"plain")) == "none"
        assert "uses_of" not in called
        await rig.configure("orders", **{VALUE: "true"})
        assert outcome(await rig.send("orders", b"plain")) == "invalid_record"
        assert called.count("uses_of") == 1


# -- where there is no registry


async def test_a_broker_that_has_lost_its_registry_refuses_what_it_cannot_check() -> None:
    async with broker() as rig:
        rig.node.replicas.large_batches.schemas = None
        refused = await rig.send("orders", value_of(1))
        assert outcome(refused) == "invalid_config"
        assert "this broker has no schema registry: set schema.registry.listeners" in refused.error_message


@pytest.mark.parametrize("name", [VALUE, KEY, STRATEGY])
async def test_without_a_registry_the_configurations_are_unknown_as_in_kafka(name: str) -> None:
    async with Rig() as rig:
        value = "true" if name != STRATEGY else f"{SUBJECT}.RecordNameStrategy"
        wanted = CreatableTopic(
            name="t",
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=(CreatableTopicConfig(name=name, value=value),),
        )
        done = await rig.connect().ask(
            "create_topics", 7, topics=(wanted,), timeout=timedelta(seconds=30), validate_only=False
        )
        assert done.topics[0].error_code.name == "invalid_config"
        assert done.topics[0].error_message == (
            f"Unknown topic config name: {name}. It needs a schema registry: set schema.registry.listeners"
        )


def test_a_broker_of_the_test_kit_knows_the_configurations_too() -> None:
    kit = BrokerConfig.of({"odradek.control": "127.0.0.1:0"})
    check_schema_validation(kit, [VALUE, "retention.ms"])
    with pytest.raises(InvalidConfiguration, match=r"Unknown topic config name: confluent\.key\.schema\.validation"):
        check_schema_validation(BrokerConfig.of(), ["retention.ms", VALUE, KEY])


async def test_a_snapshot_that_is_restored_goes_on_validating() -> None:
    async with broker() as rig:
        known = await rig.register("orders-value", record("a:int"))
        await call(rig, "POST", "/snapshots", path="/s")
        await call(rig, "POST", "/snapshots/restore", path="/s")
        assert outcome(await rig.send("orders", b"plain")) == "invalid_record"
        assert outcome(await rig.send("orders", value_of(known))) == "none"
