"""Topics are created with all their options, get more partitions, lose records, and are deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from broker.config.defs import TOPIC_CONFIGS
from broker.config.describe import describe_new_topic
from broker.console.ask import Ask, Done, Values
from broker.console.configs import meaning, type_name
from broker.console.own_client import ask_at, ask_broker, refusal, require
from broker.console.topics import seen_topic
from broker.testkit.control.endpoint import ControlError
from broker.testkit.inspection.partitions import leader_of
from metadata.acls import ResourceType
from protocol.metadata.topics import NO_LEADER

TIMEOUT = timedelta(seconds=30)
BY_DEFAULT = -1
MOST_PARTITIONS = (1 << 31) - 1
TO_HIGH_WATERMARK = -1
CONFIG = "config:"
"""Before the name of a configuration in the form's fields."""

CHECKED = "The topic could be created like this; it was not created."


async def new_topic(ask: Ask) -> Values:
    """The form, with all configurations that a topic may have."""
    knows = ask.rights.allow("describe_configs", ResourceType.CLUSTER)
    entries = describe_new_topic(ask.node.local.config, {})
    return {
        "configs": [
            {
                "name": one.name,
                "field": CONFIG + one.name,
                "default": one.value if knows else TOPIC_CONFIGS[one.name].default_text,
                "meaning": meaning(TOPIC_CONFIGS[one.name], one.value) if knows else "",
                "type": type_name(one.type),
                "expected": TOPIC_CONFIGS[one.name].expected,
                "doc": TOPIC_CONFIGS[one.name].doc,
            }
            for one in entries
        ],
        "brokers": sorted(ask.node.cluster.cache.image.cluster.alive(), key=lambda one: one.id) if knows else None,
        "given": ask.given,
    }


async def create(ask: Ask) -> Done:
    """Create the topic, or only have checked whether it could be created: then what was typed is shown again."""
    name, only_check = ask.needed("topic"), ask.text("do") == "check"
    assignments = assignment_of(ask.text("assignment"))
    if assignments and (ask.text("partitions") or ask.text("replicas")):
        raise ControlError(
            "an assignment says how many partitions and replicas there are: leave these two fields empty",
            parameter="assignment",
        )
    topic = CreatableTopic(
        name=name,
        num_partitions=ask.integer("partitions", BY_DEFAULT, most=MOST_PARTITIONS),
        replication_factor=ask.integer("replicas", BY_DEFAULT, most=(1 << 15) - 1),
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in enumerate(assignments)
        ),
        configs=tuple(
            CreatableTopicConfig(name=field.removeprefix(CONFIG), value=value)
            for field, value in ask.given.items()
            if field.startswith(CONFIG) and value.strip()
        ),
    )
    answer = await ask_broker(ask, CreateTopicsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=only_check))
    require(answer.topics[0])
    if only_check:
        return Done(ask.typed("topic"), CHECKED, "new-topic")
    return Done({"name": name})


def assignment_of(text: str) -> list[tuple[int, ...]]:
    """The replicas of each partition: a line as `1, 2, 3`, the preferred leader first. Raises ControlError."""
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        ids = [part.strip() for part in line.split(",")]
        if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in ids):
            raise ControlError(
                f"assignment: {line.strip()!r}: expected the ids of brokers, as 1, 2, 3: a line for each partition",
                parameter="assignment",
            )
        found.append(tuple(map(int, ids)))
    return found


async def add_partitions(ask: Ask) -> Done:
    name, assignments = ask.needed("topic"), assignment_of(ask.text("assignment"))
    ask.needed("partitions")
    wanted = CreatePartitionsTopic(
        name=name,
        count=ask.integer("partitions", most=MOST_PARTITIONS),
        assignments=tuple(CreatePartitionsAssignment(broker_ids=replicas) for replicas in assignments) or None,
    )
    answer = await ask_broker(ask, CreatePartitionsRequest(topics=(wanted,), timeout=TIMEOUT, validate_only=False))
    require(answer.results[0], "partitions")
    return Done({"name": name})


async def delete(ask: Ask) -> Done:
    name = ask.needed("topic")
    asked = DeleteTopicState(name=name, topic_id=None)
    _require_topic(ask, name)
    answer = await ask_broker(ask, DeleteTopicsRequest(topics=(asked,), timeout=TIMEOUT))
    require(answer.responses[0], "topic")
    return Done()


def _require_topic(ask: Ask, name: str) -> None:
    """Say which topics have a name that is near, to who may know. Raises ControlError (404)."""
    seen_topic(replace(ask, given={"topic": name}), "topic")


async def delete_records(ask: Ask) -> Done:
    """Delete those of one partition or of all, each at its leader."""
    name = ask.needed("topic")
    count = seen_topic(ask, "topic").partition_count
    indexes = [ask.integer("partition", most=count - 1)] if ask.text("partition") else range(count)
    before = ask.integer("before", TO_HIGH_WATERMARK)
    by_leader: dict[int | None, list[int]] = {}
    for index in indexes:
        leader = leader_of(ask.node, (name, index))
        by_leader.setdefault(None if leader in (None, NO_LEADER) else leader, []).append(index)
    for leader, led in by_leader.items():
        asked = tuple(DeleteRecordsPartition(partition_index=index, offset=before) for index in led)
        topics = (DeleteRecordsTopic(name=name, partitions=asked),)
        answer = await ask_at(ask, leader, DeleteRecordsRequest(topics=topics, timeout=TIMEOUT))
        for one in answer.topics[0].partitions:
            _require_deleted(name, one)
    return Done({"name": name})


def _require_deleted(name: str, answered: Any) -> None:
    if answered.error_code.value:
        error = refusal(answered.error_code, None, "before")
        raise ControlError(f"{error} ({name}-{answered.partition_index})", parameter="before", status=error.status)
