"""Requests of share consumers and operators that are wrong in part, through a whole node, as Kafka 4.4 answers them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from kio.schema.alter_share_group_offsets.v0.request import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kio.schema.delete_share_group_offsets.v0.request import DeleteShareGroupOffsetsRequestTopic
from kio.schema.describe_share_group_offsets.v0.request import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.share_fetch.v1.request import ForgottenTopic

from protocol.uuids import ZERO
from tests.unit.broker.rig import Rig
from tests.unit.broker.share.members import ACCEPT, CONFIG, GROUP, Shared, acquired

pytestmark = pytest.mark.asyncio
UNKNOWN_TYPE, OTHER_TOPIC = 9, ZERO


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    async with Rig(config=CONFIG) as rig:
        yield await Shared(rig).started()


async def offsets(shared: Shared, *topics: tuple[str, tuple[int, ...]], group: str = GROUP, all_topics: bool = False) -> Any:
    asked = None if all_topics else [
        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes) for name, indexes in topics
    ]
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None if asked is None else tuple(asked))
    answer = await shared.rig.connect().ask("describe_share_group_offsets", 1, groups=(wanted,))
    return answer.groups[0]
