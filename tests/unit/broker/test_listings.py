"""ListGroups and ListTransactions list in the order of Kafka's hash maps, as recorded."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.join_group.v2.request import JoinGroupRequestProtocol

from tests.unit.broker.listings import ANSWERS, COUNTS, NAMES, join_of
from tests.unit.broker.rig import Client, Rig, answer

KAFKA: dict[str, Any] = json.loads(ANSWERS.read_text())
MINUTE = timedelta(minutes=1)


def rig_with(partitions: str) -> Rig:
    return Rig(
        config={
            "offsets.topic.num.partitions": partitions,
            "transaction.state.log.num.partitions": partitions,
            "group.initial.rebalance.delay.ms": "0",
        }
    )


async def join(client: Client, group: str) -> Any:
    protocols = (JoinGroupRequestProtocol(name="range", metadata=b""),)
    timeouts = {"session_timeout": MINUTE, "rebalance_timeout": MINUTE}
    client.send("join_group", 2, **{**join_of(group), "protocols": protocols, **timeouts})
    await client.rig.clock.run(1)
    (reply,) = client.replies()
    return answer(reply, "join_group", 2)


async def init(client: Client, transactional_id: str) -> Any:
    return await client.ask("init_producer_id", 1, transactional_id=transactional_id, transaction_timeout=MINUTE)


async def listed_groups(client: Client) -> list[int]:
    found = await client.ask("list_groups", 0)
    return [NAMES.index(one.group_id) for one in found.groups]


async def listed_transactions(client: Client) -> list[int]:
    found = await client.ask("list_transactions", 0, state_filters=(), producer_id_filters=())
    return [NAMES.index(one.transactional_id) for one in found.transaction_states]


@pytest.mark.parametrize("partitions", KAFKA)
async def test_groups_and_transactions_are_listed_in_kafkas_order(partitions: str) -> None:
    async with rig_with(partitions) as rig:
        await rig.node.group_coordinator.ensure_topic()
        await rig.node.transaction_coordinator.ensure_topic()
        client = rig.connect()
        groups, transactions = [], []
        for count, name in enumerate(NAMES, 1):
            assert (await join(client, name)).error_code.name == "none"
            assert (await init(client, name)).error_code.name == "none"
            if count in COUNTS:
                groups.append(await listed_groups(client))
                transactions.append(await listed_transactions(client))
        assert groups == KAFKA[partitions]["groups"]
        assert transactions == KAFKA[partitions]["transactions"]


async def test_the_order_outlasts_deletions() -> None:
    """Kafka's table of groups does not shrink; of one that is deleted and made again the place is new."""
    async with rig_with("1") as rig:
        await rig.node.group_coordinator.ensure_topic()
        client = rig.connect()
        for name in NAMES[:13]:
            joined = await join(client, name)
            left = await client.ask("leave_group", 0, group_id=name, member_id=joined.member_id)
            assert left.error_code.name == "none"
        before = await listed_groups(client)
        await client.ask("delete_groups", 0, groups_names=tuple(NAMES[1:13:2]))
        assert await listed_groups(client) == [number for number in before if number % 2 == 0]


async def test_loading_may_change_the_order() -> None:
    """Kafka's table grows with each record that it loads, though it is of a group that it has; as seen in Kafka 4.1."""
    first = rig_with("1")
    async with first as rig:
        await rig.node.group_coordinator.ensure_topic()
        client = rig.connect()
        for name in ("left4", "right28"):
            joined = await join(client, name)
            await client.ask("leave_group", 0, group_id=name, member_id=joined.member_id)
        assert [one.group_id for one in (await client.ask("list_groups", 0)).groups] == ["right28", "left4"]
    async with Rig(fs=first.fs, clock=first.clock, config=first.config) as rig:
        await rig.node.group_coordinator.runtime.loaded()
        found = await rig.connect().ask("list_groups", 0)
        assert [one.group_id for one in found.groups] == ["left4", "right28"]
