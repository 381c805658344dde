"""Where a group reads is changed, its offsets or the group are deleted; a transaction is aborted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from kio.schema.alter_share_group_offsets.v0.request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_share_group_offsets.v0.request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from broker.console.ask import Ask, Done
from broker.console.groups import shows_members
from broker.console.own_client import ask_at, require
from broker.testkit.control.endpoint import DEFAULT_TIMEOUT_S, ControlError
from broker.testkit.control.group_records import resolve
from broker.testkit.control.transactions import ended
from broker.testkit.inspection import read_group, read_transaction
from broker.testkit.inspection.groups import GroupView
from broker.testkit.inspection.share_and_streams import read_share_offsets
from metadata.acls import ResourceType
from protocol.topic_partition import PartitionKey

ADMINISTRATOR = -1
"""The generation of who commits and is no member."""

NO_EPOCH = -1
NO_PRODUCER = -1


async def reset_offsets(ask: Ask) -> Done:
    """Commit other offsets of a group without members; have a share group start at them."""
    group_id, to = ask.needed("group"), ask.needed("to").strip()
    topic = ask.given.get("topic") or None
    partitions = [ask.integer("partition")] if ask.text("partition") else None
    group = await _without_members(ask, group_id, "offsets are reset")
    if topic is None:
        await _check_topics(ask, group)
    await ask.node.coordinators.groups.ensure_topic()
    offsets = await resolve(ask.node, group, to, topic, partitions)
    await (_start_at(ask, group, offsets) if group.is_share else _commit(ask, group, offsets))
    return Done({"id": group_id})


async def _without_members(ask: Ask, group_id: str, what: str) -> GroupView:
    """The group. Raises ControlError if it has members, whose names are told to who may know them."""
    group = await read_group(ask.node, group_id)
    if not group.members:
        return group
    known = shows_members(ask, group)
    clients = ", ".join(each.client_id or each.member_id for each in group.members[:5]) if known else "its members"
    raise ControlError(
        f"group {group_id} is {group.state} and has members: {what} while it has none; stop {clients}", status=409
    )


async def _check_topics(ask: Ask, group: GroupView) -> None:
    """Refuse what has a topic in it that the user may not know, or not read. Raises ControlError (403)."""
    offsets = group.offsets or await read_share_offsets(ask.node, group)
    for name in sorted({name for name, _ in offsets}):
        if not ask.rights.allow("offset_fetch", ResourceType.TOPIC, name):
            raise ControlError(
                f"the group has committed to a topic that {ask.rights.user} may not see: name the topic to reset",
                parameter="topic",
                status=403,
            )
        ask.rights.check("offset_commit", ResourceType.TOPIC, name)


def _by_topic(offsets: Sequence[tuple[PartitionKey, int]]) -> dict[str, list[tuple[int, int]]]:
    ordered = sorted((name, index, offset) for (name, index), offset in offsets)
    return {name: [(index, offset) for _, index, offset in of] for name, of in groupby(ordered, itemgetter(0))}


async def _commit(ask: Ask, group: GroupView, offsets: Sequence[tuple[PartitionKey, int]]) -> None:
    topics = tuple(
        OffsetCommitRequestTopic(
            name=name,
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=NO_EPOCH,
                    committed_metadata="",
                )
                for index, offset in of
            ),
        )
        for name, of in _by_topic(offsets).items()
    )
    request = OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=ADMINISTRATOR,
        member_id="",
        group_instance_id=None,
        topics=topics,
    )
    answer = await ask_at(ask, group.coordinator, request)
    _require_all(answer.topics)


def _require_all(topics: Sequence[Any]) -> None:
    for topic in topics:
        for partition in topic.partitions:
            require(partition)


async def _start_at(ask: Ask, group: GroupView, offsets: Sequence[tuple[PartitionKey, int]]) -> None:
    topics = tuple(
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=tuple(
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in of
            ),
        )
        for name, of in _by_topic(offsets).items()
    )
    request = AlterShareGroupOffsetsRequest(group_id=group.group_id, topics=topics)
    answer = await ask_at(ask, group.coordinator, request)
    require(answer)
    _require_all(answer.responses)


async def delete_offsets(ask: Ask) -> Done:
    """Have the group forget where it reads a topic, or one of its partitions."""
    group_id, topic = ask.needed("group"), ask.needed("topic")
    group = await read_group(ask.node, group_id)
    if group.is_share:
        if ask.text("partition"):
            raise ControlError(
                "a share group forgets all partitions of a topic together: leave the partition empty",
                parameter="partition",
            )
        topics = (DeleteShareGroupOffsetsRequestTopic(topic_name=topic),)
        answer = await ask_at(ask, group.coordinator, DeleteShareGroupOffsetsRequest(group_id=group_id, topics=topics))
        require(answer)
        require(answer.responses[0])
        return Done({"id": group_id})
    indexes = sorted(index for name, index in group.offsets if name == topic)
    if ask.text("partition"):
        indexes = [ask.integer("partition", most=(1 << 31) - 1)]
    if not indexes:
        raise ControlError(f"group {group_id} has committed nothing to {topic}", parameter="topic", status=404)
    asked = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in indexes)
    wanted = (OffsetDeleteRequestTopic(name=topic, partitions=asked),)
    answer = await ask_at(ask, group.coordinator, OffsetDeleteRequest(group_id=group_id, topics=wanted))
    require(answer)
    _require_all(answer.topics)
    return Done({"id": group_id})


async def delete(ask: Ask) -> Done:
    group_id = ask.needed("group")
    group = await _without_members(ask, group_id, "it is deleted")
    answer = await ask_at(ask, group.coordinator, DeleteGroupsRequest(groups_names=(group_id,)))
    require(answer.results[0])
    return Done()


async def abort_transaction(ask: Ask) -> Done:
    """Fence the producer as Admin.fenceProducers does, whose open transaction is aborted for that; wait until it is."""
    name = ask.needed("transactional_id")
    found = await read_transaction(ask.node, name)
    if not found.exists:
        raise ControlError(f"there is no transactional id {name}", parameter="transactional_id", status=404)
    if not found.is_ongoing:
        raise ControlError(
            f"transactional id {name} is {found.state}: there is no open transaction to abort", status=409
        )
    request = InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout=timedelta(milliseconds=found.timeout_ms),
        producer_id=NO_PRODUCER,
        producer_epoch=NO_EPOCH,
    )
    answer = await ask_at(ask, found.coordinator, request)
    if answer.error_code is not ErrorCode.concurrent_transactions:  # it is being aborted
        require(answer)
    await ended(ask.node, name, DEFAULT_TIMEOUT_S)
    return Done({"id": name})
