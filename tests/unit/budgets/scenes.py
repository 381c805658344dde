"""A conversation for each row of the table, in rounds that are all alike: only steady work is measured.

Each scene makes a node and yields it with what one round does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchTopic

from metadata.acls import AclOperation
from tests.unit.broker import members, transactions
from tests.unit.broker.authorization.test_guard import ALICE, SETTINGS, allow
from tests.unit.broker.rig import Client
from tests.unit.broker.share.members import ACCEPT, Shared
from tests.unit.broker.share.members import CONFIG as SHARE_CONFIG
from tests.unit.broker.streams_members import CONFIG as STREAMS_CONFIG
from tests.unit.broker.streams_members import Member as StreamsMember
from tests.unit.broker.wire import answer, batch, fetch, produce
from tests.unit.budgets.meters import MeteredRig

Round = Callable[[], Awaitable[None]]
Scene = Callable[[], AbstractAsyncContextManager[tuple[MeteredRig, Round]]]
IDLE_PARTITIONS = 500


async def send(client: Client, version: int = 9, **fields: Any) -> None:
    """Send a Produce, which must succeed."""
    done = await client.ask("produce", version, **fields)
    assert done.responses[0].partition_responses[0].error_code is ErrorCode.none


@asynccontextmanager
async def small_produce() -> AsyncIterator[tuple[MeteredRig, Round]]:
    async with MeteredRig() as rig:
        await rig.create("t")
        client = rig.connect()

        async def once() -> None:
            with rig.meter.of("Produce of one record"):
                await send(client, **produce("t", {0: batch(b"v")}))

        yield rig, once


@asynccontextmanager
async def idempotent_produce() -> AsyncIterator[tuple[MeteredRig, Round]]:
    async with MeteredRig() as rig:
        await rig.create("t")
        client = rig.connect()
        producer = transactions.Producer(client)
        producer.name = None  # type: ignore[assignment]  # of no transaction
        assert await producer.init() == "none"
        sequence = 0

        async def once() -> None:
            nonlocal sequence
            records = batch(b"v", producer_id=producer.producer_id, producer_epoch=0, base_sequence=sequence)
            sequence += 1
            with rig.meter.of("Produce of one record, idempotent"):
                await send(client, **produce("t", {0: records}))

        yield rig, once


@asynccontextmanager
async def authorized_produce() -> AsyncIterator[tuple[MeteredRig, Round]]:
    async with MeteredRig(SETTINGS) as rig:
        await rig.create("t")
        await allow(rig, AclOperation.WRITE)
        client = rig.connect()
        client.connection.principal = ALICE

        async def once() -> None:
            with rig.meter.of("Produce of one record, authorized"):
                await send(client, **produce("t", {0: batch(b"v")}))

        yield rig, once


@asynccontextmanager
async def fetches() -> AsyncIterator[tuple[MeteredRig, Round]]:
    async with MeteredRig() as rig:
        await rig.create("t")
        await rig.create("idle", IDLE_PARTITIONS)
        producer, client, wide = rig.connect(), rig.connect(), rig.connect()
        partitions = range(IDLE_PARTITIONS)
        wanted = tuple(
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in partitions
        )
        idle = FetchTopic(topic="idle", partitions=wanted)

        def request(offset: int, *others: FetchTopic, **fields: int) -> dict[str, Any]:
            asked = fetch([("t", 0, offset)], **fields)
            return {**asked, "topics": (*asked["topics"], *others)}

        first = await rig.connect().ask("fetch", 12, **request(0, idle, max_wait_ms=0, session_epoch=0))
        session, epoch, offset = rig.connect(), 0, 0

        async def once() -> None:
            nonlocal epoch, offset
            await send(producer, **produce("t", {0: batch(b"v")}))
            with rig.meter.of("Fetch of one record"):
                alone = await client.ask("fetch", 12, **request(offset))
            assert alone.responses[0].partitions[0].records
            with rig.meter.of("Fetch of one record among 500 partitions"):
                among = await wide.ask("fetch", 12, **request(offset, idle))
            assert [len(topic.partitions) for topic in among.responses] == [1, IDLE_PARTITIONS]
            epoch += 1
            in_session = {"session_id": first.session_id, "session_epoch": epoch}
            with rig.meter.of("Fetch of one record in a session of 500 partitions"):
                found = await session.ask("fetch", 12, **request(offset, **in_session))
            assert [len(topic.partitions) for topic in found.responses] == [1]
            offset += 1

        yield rig, once


@asynccontextmanager
async def classic_group() -> AsyncIterator[tuple[MeteredRig, Round]]:
    async with MeteredRig(members.CONFIG) as rig:
        await rig.create("t")
        member = members.ClassicMember(rig, "g", "t")
        await member.enter({"t": [0]})

        async def once() -> None:
            with rig.meter.of("JoinGroup"):
                await member.send_join()
                assert member.joined().error_code.name == "none"
            with rig.meter.of("SyncGroup"):
                await member.sync({member.member_id: {"t": [0]}})
                assert answer(member.client.replies()[0], *members.SYNC).error_code.name == "none"
            assert await member.heartbeat() == "none"
            with rig.meter.of("Heartbeat"):  # the second is the first once more
                assert await member.heartbeat() == "none"
            with rig.meter.of("OffsetCommit"):
                assert await member.commit("t", {0: 1}) == ["none"]

        yield rig, once


@asynccontextmanager
async def consumer_group() -> AsyncIterator[tuple[MeteredRig, Round]]:
    async with MeteredRig(members.CONFIG) as rig:
        await rig.create("t")
        member = members.ConsumerMember(rig, "g", "t")
        joined = await member.heartbeat()
        (given,) = joined.assignment.topic_partitions
        owned = TopicPartitions(topic_id=given.topic_id, partitions=given.partitions)
        await member.heartbeat([owned])

        async def once() -> None:
            with rig.meter.of("ConsumerGroupHeartbeat"):
                assert (await member.heartbeat()).error_code is ErrorCode.none

        yield rig, once


@asynccontextmanager
async def share_group() -> AsyncIterator[tuple[MeteredRig, Round]]:
    async with MeteredRig(SHARE_CONFIG) as rig:
        shared = await Shared(rig).started()
        member = await shared.member()
        await shared.produce(b"a", b"b")
        await member.fetch()
        producer, first = rig.connect(), 0

        async def once() -> None:
            nonlocal first
            await send(producer, **produce("t", {0: batch(b"a", b"b")}))
            with rig.meter.of("ShareAcknowledge"):
                assert (await member.acknowledge(first, first, ACCEPT)).name == "none"
            with rig.meter.of("ShareFetch with acknowledgements"):
                fetched = await member.fetch((first + 1, first + 1, ACCEPT))
            assert (fetched.acknowledge_error_code, len(fetched.acquired_records)) == (0, 1)
            with rig.meter.of("ShareGroupHeartbeat"):
                await member.beat(None)
            first += 2

        yield rig, once


@asynccontextmanager
async def streams_group() -> AsyncIterator[tuple[MeteredRig, Round]]:
    async with MeteredRig(STREAMS_CONFIG) as rig:
        await rig.create("t")
        await rig.node.coordinators.groups.ensure_topic()
        member = StreamsMember(rig)
        for _ in range(4):  # internal topics are made, tasks assigned and owned
            await member.beat()
        assert member.tasks
        nothing_new: dict[str, Any] = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"))
        nothing_new |= {"process_id": None, "user_endpoint": None, "client_tags": None}

        async def once() -> None:
            with rig.meter.of("StreamsGroupHeartbeat"):
                assert (await member.beat(**nothing_new)).error_code is ErrorCode.none

        yield rig, once


@asynccontextmanager
async def transactions_of_either_kind() -> AsyncIterator[tuple[MeteredRig, Round]]:
    async with MeteredRig(transactions.CONFIG) as rig:
        producer = await transactions.opened(rig)
        partition = rig.node.replicas.find("t", 0)

        async def once() -> None:
            with rig.meter.of("transaction: Produce"):
                assert await producer.produce(b"v", 0) == ["none"]
            with rig.meter.of("transaction: EndTxn with marker"):
                assert await producer.end(commit=True) == "none"
            assert partition.last_stable_offset == partition.log_end_offset

        yield rig, once


@asynccontextmanager
async def first_version_transaction() -> AsyncIterator[tuple[MeteredRig, Round]]:
    async with MeteredRig(transactions.CONFIG) as rig:
        producer = await transactions.opened(rig)
        sequence = 0

        async def once() -> None:
            nonlocal sequence
            with rig.meter.of("transaction of version 1: AddPartitionsToTxn"):
                assert await producer.add_partition() == "none"
            with rig.meter.of("transaction of version 1: Produce"):
                assert await producer.produce(b"v", sequence, transactions.V1) == ["none"]
            with rig.meter.of("transaction of version 1: EndTxn with marker"):
                assert await producer.end(commit=True, version=3) == "none"
            sequence += 1

        yield rig, once


SCENES: Sequence[Scene] = (
    small_produce,
    idempotent_produce,
    authorized_produce,
    fetches,
    classic_group,
    consumer_group,
    share_group,
    streams_group,
    transactions_of_either_kind,
    first_version_transaction,
)
