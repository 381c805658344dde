"""A member that joins a consumer group is answered as late as by Kafka, which gathers records first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import answer

MEMBER: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "instance_id": None,
    "rack_id": None,
    "subscribed_topic_names": ("letters",),
    "subscribed_topic_regex": None,
    "server_assignor": None,
}
JOINING = {**MEMBER, "member_epoch": 0, "rebalance_timeout": timedelta(minutes=1), "topic_partitions": ()}
REPORTING_NOTHING = {
    **MEMBER,
    "member_epoch": 2,
    "rebalance_timeout": timedelta(milliseconds=-1),
    "subscribed_topic_names": None,
    "topic_partitions": None,
}


@pytest.mark.parametrize(("configured", "linger_ms"), [(0, 0), (5, 5), (30, 30), (-1, 5)])
async def test_only_a_subscription_waits_for_the_linger(configured: int, linger_ms: int) -> None:
    async with Rig(config={"group.coordinator.append.linger.ms": str(configured)}) as rig:
        await rig.create("letters")
        await rig.node.coordinators.groups.ensure_topic()
        client = rig.connect()
        client.send("consumer_group_heartbeat", 1, **JOINING)
        if linger_ms:
            await rig.clock.run(linger_ms - 1)
            assert client.replies() == []
        await rig.clock.run(1)
        (joined,) = (answer(reply, "consumer_group_heartbeat", 1) for reply in client.replies())
        assert (joined.error_code, joined.member_epoch) == (ErrorCode.none, 2)
        assert joined.assignment is not None
        client.send("consumer_group_heartbeat", 1, **REPORTING_NOTHING)
        await rig.clock.run(0)
        (unchanged,) = (answer(reply, "consumer_group_heartbeat", 1) for reply in client.replies())
        assert (unchanged.error_code, unchanged.member_epoch) == (ErrorCode.none, 2)
