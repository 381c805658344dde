"""What to ask a Kafka (by `tools.recorders.ask_kafka_offline`) and a node about partitions whose folder has failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol.records.build import Record, build_batch
from tests.conformance import schema

ANSWERS = Path(__file__).with_name("kafka_offline.json")
"""Kafka's answers by question."""

TOPIC = "t"
SECOND_MS = 1000
TOLD = frozenset(
    {
        "error_code",
        "partition_error_code",
        "error_message",
        "node_id",
        "leader_id",
        "isr_nodes",
        "offline_replicas",
        "eligible_leader_replicas",
        "last_known_elr",
        "low_watermark",
        "high_watermark",
        "end_offset",
    }
)
"""The fields of an answer that are compared."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """An offline partition of `t`, a group and a transactional id kept in offline ones, and a producer that is not."""

    topic_id: str
    partition: int
    group: str
    transactional_id: str
    producer: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    api: str
    version: int
    body: Mapping[str, Any]

    def told(self, answer: Any, partition: int) -> list[Any]:
        """What an answer says of the partition asked about, in order."""
        return list(_told(answer, partition))


def _told(value: Any, partition: int) -> Iterator[Any]:
    if isinstance(value, list):
        for one in value:
            yield from _told(one, partition)
    elif isinstance(value, dict) and value.get("partition_index", partition) == partition:
        for name, one in value.items():
            if name in TOLD:
                yield [name, one]
            else:
                yield from _told(one, partition)


def questions(of: Subjects) -> Iterator[Question]:
    yield from _about_records(of)
    yield from _about_transactions(of)
    yield from _about_groups(of)
    yield from _about_places(of)


def _records(of: Subjects, **fields: Any) -> bytes:
    return bytes(build_batch([Record(0, 1_700_000_000_000, None, b"v")], **fields))


def _produce(of: Subjects, name: str | None, records: bytes) -> dict[str, Any]:
    data = [{"index": of.partition, "records": records}]
    topics = [{"name": TOPIC, "partition_data": data}]
    return {"transactional_id": name, "acks": -1, "timeout": SECOND_MS, "topic_data": topics}


def _of_partition(of: Subjects, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": TOPIC, "partitions": [{"partition_index": of.partition, **fields}]}]


def _about_records(of: Subjects) -> Iterator[Question]:
    yield Question("produce", "produce", 9, _produce(of, None, _records(of)))
    yield Question("produce 10", "produce", 10, _produce(of, None, _records(of)))
    wanted: dict[str, Any] = {
        "partition": of.partition,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    fetch: dict[str, Any] = {
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "rack_id": "",
        "forgotten_topics_data": [],
        "topics": [{"topic": TOPIC, "partitions": [wanted]}],
    }
    yield Question("fetch", "fetch", 12, fetch)
    by_id = {**fetch, "topics": [{"topic_id": of.topic_id, "partitions": [wanted]}]}
    yield Question("fetch 17", "fetch", 17, by_id)
    for timestamp in (-1, -2, -3, 0):
        topics = _of_partition(of, current_leader_epoch=-1, timestamp=timestamp)
        body = {"replica_id": -1, "isolation_level": 0, "topics": topics}
        yield Question(f"list_offsets {timestamp}", "list_offsets", 7, body)
    wanted = {"partition": of.partition, "current_leader_epoch": -1, "leader_epoch": 0}
    body = {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [wanted]}]}
    yield Question("epoch", "offset_for_leader_epoch", 4, body)
    for offset in (-1, 1):
        body = {"timeout": SECOND_MS, "topics": _of_partition(of, offset=offset)}
        yield Question(f"delete_records {offset}", "delete_records", 2, body)
    topics = [{"name": TOPIC, "partition_indexes": [of.partition]}]
    yield Question("producers", "describe_producers", 0, {"topics": topics})


def _about_transactions(of: Subjects) -> Iterator[Question]:
    producer = {"producer_id": of.producer_id, "producer_epoch": of.producer_epoch}
    records = _records(of, **producer, base_sequence=0, transactional=True)
    for version in (9, 12):
        yield Question(f"transactional produce {version}", "produce", version, _produce(of, of.producer, records))
    for version in (3, 5):
        offset = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        body: dict[str, Any] = {
            **producer,
            "transactional_id": of.producer,
            "group_id": of.group,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": of.partition, **offset}]}],
        }
        yield Question(f"transactional offsets {version}", "txn_offset_commit", version, body)
    marker: dict[str, Any] = {
        "producer_id": 9999,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": [{"name": TOPIC, "partition_indexes": [of.partition]}],
        "coordinator_epoch": 0,
    }
    yield Question("marker", "write_txn_markers", 1, {"markers": [marker]})
    asked = {"transactional_id": of.transactional_id, "producer_id": 1, "producer_epoch": 0}
    yield Question("end_txn", "end_txn", 3, {**asked, "committed": True})
    yield Question("transaction", "describe_transactions", 0, {"transactional_ids": [of.transactional_id]})


def _about_groups(of: Subjects) -> Iterator[Question]:
    for kind, key in ((0, of.group), (1, of.transactional_id)):
        yield Question(f"coordinator {kind}", "find_coordinator", 4, {"key_type": kind, "coordinator_keys": [key]})
        yield Question(f"coordinator {kind}, alone", "find_coordinator", 3, {"key_type": kind, "key": key})
    body: dict[str, Any] = {"group_id": of.group, "generation_id": 1, "member_id": "m"}
    yield Question("heartbeat", "heartbeat", 3, body)
    yield Question("offsets", "offset_fetch", 7, {"group_id": of.group, "topics": None, "require_stable": False})
    body = {"groups": [of.group], "include_authorized_operations": False}
    yield Question("group", "describe_groups", 6, body)
    yield Question("delete group", "delete_groups", 2, {"groups_names": [of.group]})


def _about_places(of: Subjects) -> Iterator[Question]:
    for kind in (0, 1):
        asked = [{"topic": TOPIC, "partitions": [of.partition]}]
        body: dict[str, Any] = {"election_type": kind, "topic_partitions": asked, "timeout": SECOND_MS}
        yield Question(f"elect {kind}", "elect_leaders", 2, body)
    named = [{"topic_id": schema.NO_ID, "name": TOPIC}]
    body = {"topics": named, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    yield Question("metadata", "metadata", 12, body)
    body = {"topics": [{"name": TOPIC}], "response_partition_limit": 100, "cursor": None}
    yield Question("topic", "describe_topic_partitions", 0, body)
