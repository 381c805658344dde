"""How far a request walks, from the bytes that arrive to those of its answer: no further than it did.

A file more is one more that a reader must open to understand the request; a call more is time. Whoever makes a walk
shorter writes the new numbers here.
"""

from __future__ import annotations

from tests.doubles.clock import settle
from tests.unit.broker import members, transactions
from tests.unit.broker.rig import Rig
from tests.unit.broker.share.members import ACCEPT, Shared
from tests.unit.broker.share.members import CONFIG as SHARE_CONFIG
from tests.unit.broker.walks import Walk, walk
from tests.unit.broker.wire import answer, batch, fetch, produce

MOST: dict[str, tuple[int, int]] = {
    "Produce": (10, 59),
    "Fetch": (12, 83),
    "Fetch of a session with 100 idle partitions": (12, 91),
    "JoinGroup": (19, 120),
    "SyncGroup": (24, 115),
    "Heartbeat": (16, 34),
    "Heartbeat of the consumer protocol, repeated": (19, 41),
    "OffsetCommit": (24, 97),
    "EndTxn with marker": (21, 190),
    "ShareFetch with acknowledgements": (31, 355),
    "ShareAcknowledge": (26, 225),
}
"""Files and Python calls, at most."""

ROUNDS = 3
"""Rounds of the same requests, of which the last one counts."""


def check(walks: dict[str, Walk]) -> None:
    too_long = {
        name: (len(found.files), found.calls, found.files)
        for name, found in walks.items()
        if len(found.files) > MOST[name][0] or found.calls > MOST[name][1]
    }
    assert not too_long


def heartbeat(member: members.ClassicMember) -> None:
    member.client.send(
        "heartbeat",
        4,
        client_id=member.client_id,
        group_id=member.group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=None,
    )


async def test_the_walks_of_records() -> None:
    walks: dict[str, Walk] = {}
    async with Rig() as rig:
        await rig.create("t", 101)
        client, sessions = rig.connect(), rig.connect()
        places = [("t", index, 0) for index in range(101)]
        opened = await sessions.ask("fetch", 12, **fetch(places, max_wait_ms=0, session_epoch=0))
        for number in range(ROUNDS):
            records = batch(b"v" * 100)
            with walk() as walks["Produce"]:
                client.send("produce", 9, **produce("t", {0: records}))
                await settle()
            assert (
                answer(client.replies()[0], "produce", 9).responses[0].partition_responses[0].error_code.name == "none"
            )
            with walk() as walks["Fetch"]:
                client.send("fetch", 12, **fetch([("t", 0, number)]))
                await settle()
            assert answer(client.replies()[0], "fetch", 12).responses[0].partitions[0].records
            session = {"session_id": opened.session_id, "session_epoch": number + 1}
            with walk() as walks["Fetch of a session with 100 idle partitions"]:
                sessions.send("fetch", 12, **fetch([("t", 0, number)], **session))
                await settle()
            assert answer(sessions.replies()[0], "fetch", 12).responses[0].partitions[0].records
    check(walks)


async def test_the_walk_of_a_member_of_a_consumer_group() -> None:
    async with Rig(config=members.CONFIG) as rig:
        await rig.create("t")
        member = members.ConsumerMember(rig, "g", "t")
        await member.heartbeat()
        for _ in range(ROUNDS):
            assert (await member.heartbeat()).error_code.name == "none"
        with walk() as found:
            assert (await member.heartbeat()).error_code.name == "none"
    check({"Heartbeat of the consumer protocol, repeated": found})


async def test_the_walks_of_a_member_of_a_classic_group() -> None:
    walks: dict[str, Walk] = {}
    async with Rig(config=members.CONFIG) as rig:
        await rig.create("t")
        member = members.ClassicMember(rig, "g", "t")
        await member.enter({"t": [0]})
        for _ in range(ROUNDS):
            with walk() as walks["JoinGroup"]:
                member._join()
                await rig.clock.run(members.TICK_MS)
            assert member.joined().error_code.name == "none"
            with walk() as walks["SyncGroup"]:
                await member.sync({member.member_id: {"t": [0]}})
            assert answer(member.client.replies()[0], *members.SYNC).error_code.name == "none"
            with walk() as walks["Heartbeat"]:
                heartbeat(member)
                await settle()
            assert answer(member.client.replies()[0], "heartbeat", 4).error_code.name == "none"
            with walk() as walks["OffsetCommit"]:
                assert await member.commit("t", {0: 1}) == ["none"]
    check(walks)


async def test_the_walk_of_the_end_of_a_transaction_with_its_marker() -> None:
    async with Rig(config=transactions.CONFIG) as rig:
        producer = await transactions.opened(rig)
        for _ in range(ROUNDS):
            assert await producer.produce(b"v", 0) == ["none"]
            with walk() as found:
                assert await producer.end(commit=True) == "none"
            assert rig.node.replicas.find("t", 0).last_stable_offset == rig.node.replicas.find("t", 0).log_end_offset
    check({"EndTxn with marker": found})


async def test_the_walks_of_a_share_consumer() -> None:
    walks: dict[str, Walk] = {}
    async with Rig(config=SHARE_CONFIG) as rig:
        shared = await Shared(rig).started()
        member = await shared.member()
        await shared.produce(b"a", b"b")
        await member.fetch()
        for number in range(ROUNDS):
            first = 2 * number
            await shared.produce(b"a", b"b")
            with walk() as walks["ShareAcknowledge"]:
                assert (await member.acknowledge(first, first, ACCEPT)).name == "none"
            with walk() as walks["ShareFetch with acknowledgements"]:
                fetched = await member.fetch((first + 1, first + 1, ACCEPT))
            assert (fetched.acknowledge_error_code, len(fetched.acquired_records)) == (0, 1)
    check(walks)
