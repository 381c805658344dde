"""Faults of share groups' requests: they are selected by topic and group, and strike after the state is written."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.faults.breaking import Breaking
from tests.unit.broker.rig import Rig
from tests.unit.broker.share.members import ACCEPT, CONFIG, GROUP, Shared


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    async with Rig(config=CONFIG) as rig:
        yield await Shared(rig).started()


async def test_a_share_fetch_is_selected_by_topic_also_where_only_its_session_has_it(shared: Shared) -> None:
    member = await shared.member()
    await member.fetch()  # now the topic is in the session
    breaking = Breaking(shared.rig)
    other = breaking.set(api="ShareFetch", topic="other", error="UNKNOWN_SERVER_ERROR")
    fault = breaking.set(api="ShareFetch", topic="t", group=GROUP, error="COORDINATOR_NOT_AVAILABLE", count=1)
    assert (await member.fetch()).error_code is ErrorCode.coordinator_not_available
    assert (fault.hits, other.hits) == (1, 0)


async def test_a_share_group_heartbeat_is_selected_by_group(shared: Shared) -> None:
    breaking = Breaking(shared.rig)
    fault = breaking.set(api="ShareGroupHeartbeat", group=GROUP, observe=True)
    other = breaking.set(api="ShareGroupHeartbeat", group="others", observe=True)
    await shared.member()
    assert fault.hits
    assert not other.hits


async def test_an_acknowledgement_that_fails_after_it_was_written_is_kept(shared: Shared) -> None:
    member = await shared.member()
    await shared.produce(b"a", b"b")
    assert [one.last_offset for one in (await member.fetch()).acquired_records] == [1]
    breaking = Breaking(shared.rig)
    breaking.set(api="ShareAcknowledge", phase="after_append", topic="t", error="NETWORK_EXCEPTION", count=1)
    assert await member.acknowledge(0, 1, ACCEPT) is ErrorCode.network_exception
    assert await member.fetch() is None  # what was acknowledged does not come again
