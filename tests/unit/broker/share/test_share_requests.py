"""What share consumers and operators ask for that is wrong, or gone, through a whole node: as Kafka 4.4 answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_share_group_offsets.v0.request import DeleteShareGroupOffsetsRequestTopic
from kio.schema.describe_share_group_offsets.v0.request import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.initialize_share_group_state.v0.request import InitializeStateData
from kio.schema.initialize_share_group_state.v0.request import PartitionData as PartitionDataToInitialize
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.read_share_group_state.v0.request import PartitionData, ReadStateData
from kio.schema.share_acknowledge.v2.request import AcknowledgementBatch, AcknowledgePartition, AcknowledgeTopic
from kio.schema.share_fetch.v2.request import FetchPartition, FetchTopic, ForgottenTopic

from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.share.members import ACCEPT, CONFIG, GROUP, Shared

pytestmark = pytest.mark.asyncio
NO_SUCH_TYPE = 9
ABSENT = UUID(int=77)


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    async with Rig(config=CONFIG) as rig:
        yield await Shared(rig).started()


async def described(shared: Shared, *names: str) -> Any:
    """The offsets of partition 0 of these topics; of all without names."""
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=(0,)) for name in names]
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=tuple(topics) if names else None)
    answer = await shared.rig.connect().ask("describe_share_group_offsets", 1, groups=(wanted,))
    assert answer.groups[0].error_code is ErrorCode.none
    return answer.groups[0].topics


async def fetch(shared: Shared, client: Client, epoch: int, **fields: Any) -> Any:
    return await client.ask(
        "share_fetch",
        2,
        **{
            "group_id": GROUP,
            "member_id": "m",
            "share_session_epoch": epoch,
            "max_wait": timedelta(0),
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 10,
            "batch_size": 10,
            "share_acquire_mode": 0,
            "is_renew_ack": False,
            "topics": (),
            "forgotten_topics_data": (),
        }
        | fields,
    )


async def test_topics_that_are_gone_are_neither_described_nor_deleted(shared: Shared) -> None:
    member = await shared.member()
    await member.fetch()
    assert [topic.topic_name for topic in await described(shared)] == ["t"]
    await shared.rig.delete("t")
    assert [topic.topic_name for topic in await described(shared)] == []
    assert [topic.topic_id for topic in await described(shared, "t")] == [None]
    await shared.rig.connect().ask(
        "share_group_heartbeat",
        1,
        group_id=GROUP,
        member_id="m",
        member_epoch=-1,
        rack_id=None,
        subscribed_topic_names=None,
    )
    asked = (DeleteShareGroupOffsetsRequestTopic(topic_name="t"),)
    answer = await shared.rig.connect().ask("delete_share_group_offsets", 0, group_id=GROUP, topics=asked)
    assert [(one.topic_id, one.error_code) for one in answer.responses] == [
        (None, ErrorCode.unknown_topic_or_partition)
    ]


async def test_the_leader_epoch_of_a_partition_without_a_start_is_told(shared: Shared) -> None:
    await shared.member()
    partition = PartitionData(partition=0, leader_epoch=3)
    state = ReadStateData(topic_id=shared.topic_id, partitions=(partition,))
    answer = await shared.rig.connect().ask("read_share_group_state", 0, group_id=GROUP, topics=(state,))
    assert answer.results[0].partitions[0].error_code is ErrorCode.none
    (topic,) = await described(shared, "t")
    assert (topic.partitions[0].start_offset, topic.partitions[0].leader_epoch) == (-1, 3)


async def test_a_member_of_a_share_group_has_no_committed_offsets_and_that_is_no_error(shared: Shared) -> None:
    await shared.member()
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=(0,))
    for member_id, epoch in (("m", 2), ("", -1), (None, -1)):
        group = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=(topic,))
        answer = await shared.rig.connect().ask("offset_fetch", 9, groups=(group,), require_stable=False)
        assert answer.groups[0].error_code is ErrorCode.none
        assert answer.groups[0].topics[0].partitions[0].committed_offset == -1


async def test_wrong_acknowledgements_are_told_before_partitions_and_after_topics_that_are_not_there(
    shared: Shared,
) -> None:
    client = shared.rig.connect()
    assert (await fetch(shared, client, 0)).error_code is ErrorCode.none
    batch = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=(NO_SUCH_TYPE,))
    partition = AcknowledgePartition(partition_index=7, acknowledgement_batches=(batch,))
    topics = (shared.topic_id, ABSENT)
    answer = await client.ask(
        "share_acknowledge",
        2,
        group_id=GROUP,
        member_id="m",
        share_session_epoch=1,
        is_renew_ack=False,
        topics=tuple(AcknowledgeTopic(topic_id=topic_id, partitions=(partition,)) for topic_id in topics),
    )
    codes = {topic.topic_id: topic.partitions[0].error_code for topic in answer.responses}
    assert codes == {shared.topic_id: ErrorCode.invalid_request, ABSENT: ErrorCode.unknown_topic_id}


async def test_a_new_session_forgets_nothing(shared: Shared) -> None:
    await shared.member()
    await shared.produce(b"a")
    client = shared.rig.connect()
    wanted = FetchTopic(
        topic_id=shared.topic_id, partitions=(FetchPartition(partition_index=0, acknowledgement_batches=()),)
    )
    forgotten = ForgottenTopic(topic_id=shared.topic_id, partitions=(0,))
    answer = await fetch(shared, client, 0, topics=(wanted,), forgotten_topics_data=(forgotten,))
    assert [topic.topic_id for topic in answer.responses] == [shared.topic_id]
    again = await fetch(shared, client, 1, forgotten_topics_data=(forgotten,))
    assert again.responses == ()


async def test_the_session_is_looked_for_before_the_way_of_acquiring(shared: Shared) -> None:
    client = shared.rig.connect()
    assert (await fetch(shared, client, 3, share_acquire_mode=7)).error_code is ErrorCode.share_session_not_found
    assert (await fetch(shared, client, 0, share_acquire_mode=7)).error_code is ErrorCode.invalid_request


async def test_what_is_not_there_is_no_error_of_the_description(shared: Shared) -> None:
    """Partitions are looked at only for topics that there are."""
    for name, code in (("absent", ErrorCode.none), ("t", ErrorCode.invalid_request)):
        topic = DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=(-2,))
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=(topic,))
        answer = await shared.rig.connect().ask("describe_share_group_offsets", 1, groups=(wanted,))
        assert answer.groups[0].error_code is code


async def test_kip_951_who_acknowledges_to_a_former_leader_is_told_the_leader(shared: Shared) -> None:
    """A newer state of the share partition means that another node leads it, as far as this one knows."""
    member = await shared.member()
    await shared.produce(b"a")
    await member.fetch()
    state = PartitionDataToInitialize(partition=0, state_epoch=9, start_offset=0)
    topic = InitializeStateData(topic_id=shared.topic_id, partitions=(state,))
    client = shared.rig.connect()
    done = await client.ask("initialize_share_group_state", 0, group_id=GROUP, topics=(topic,))
    assert done.results[0].partitions[0].error_code is ErrorCode.none
    batch = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=(ACCEPT,))
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=(batch,))
    answer = await client.ask(
        "share_acknowledge",
        2,
        group_id=GROUP,
        member_id="m",
        share_session_epoch=1,
        is_renew_ack=False,
        topics=(AcknowledgeTopic(topic_id=shared.topic_id, partitions=(partition,)),),
    )
    (found,) = answer.responses[0].partitions
    assert (found.error_code, found.current_leader.leader_id) == (ErrorCode.not_leader_or_follower, 1)
    assert [endpoint.node_id for endpoint in answer.node_endpoints] == [1]
