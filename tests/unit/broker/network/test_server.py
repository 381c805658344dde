"""Server: limits on connections, idle connections, and the end."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource

from broker.background import Stopped
from broker.config.listeners import Listener
from broker.network import connection
from broker.network.server import FINISH_MS, LEAST_BACKLOG, ListenError
from tests.doubles.clock import settle
from tests.doubles.files import MemoryFileSystem
from tests.doubles.workers import QueuedWorkers
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch, fetch, frame, produce


async def admitted(client: Client) -> bool:
    client.transport.feed(frame("api_versions", 0, 1))
    await settle()
    return bool(client.replies())


async def test_who_is_beyond_max_connections_waits_for_others_to_go() -> None:
    async with Rig(config={"max.connections": "2"}) as rig:
        first, second, third, gone, last = (rig.connect() for _ in range(5))
        assert await admitted(second)
        assert not await admitted(third)
        assert not await admitted(last)
        gone.transport.reset()
        first.transport.reset()
        await settle()
        assert len(third.replies()) == 1
        assert not last.replies()
        third.transport.reset()
        await settle()
        assert len(last.replies()) == 1
        assert len(rig.node.server.connections) == 2


async def test_no_client_gets_one_of_the_last_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for files, and for health checks at the HTTP port."""
    descriptors = iter((10, 200 - 25 - 1, 200 - 25, 199, 11))
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (200, 200))
    async with Rig() as rig:
        monkeypatch.setattr(connection, "descriptor_of", lambda _transport: next(descriptors))
        assert [await admitted(rig.connect()) for _ in range(5)] == [True, True, False, False, True]
        assert len(rig.node.server.connections) == 3


async def test_nothing_is_read_from_who_waits() -> None:
    async with Rig(config={"max.connections": "1"}) as rig:
        rig.connect()
        waiting = rig.connect()
        await settle()
        assert not waiting.transport.reading
        rig.node.server.limits_changed()
        assert not waiting.transport.reading


async def test_no_more_wait_than_the_backlog_has_room_for() -> None:
    async with Rig(config={"max.connections": "1"}) as rig:
        waiting = [rig.connect() for _ in range(1 + LEAST_BACKLOG)]
        assert await rig.connect().closed()
        assert not any(one.transport.lost for one in waiting)


async def test_max_connections_changes_while_the_broker_runs() -> None:
    async with Rig(config={"max.connections": "1"}) as rig:
        admin, other = rig.connect(), rig.connect()
        assert not await admitted(other)
        await set_max_connections(admin, "3")
        assert len(other.replies()) == 1
        silent = rig.connect()
        await rig.clock.run(10)
        assert await admitted(other)
        assert not silent.transport.lost
        await set_max_connections(admin, "2")
        assert silent.transport.lost
        assert await admitted(other)


async def set_max_connections(client: Client, value: str) -> None:
    configs = (AlterableConfig(name="max.connections", config_operation=0, value=value),)
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=configs)
    done = await client.ask("incremental_alter_configs", 1, resources=(resource,), validate_only=False)
    assert [one.error_code.name for one in done.responses] == ["none"]
    await settle()


async def test_who_waits_is_dropped_at_the_stop() -> None:
    async with Rig(config={"max.connections": "1"}) as rig:
        rig.connect()
        waiting = rig.connect()
    assert waiting.transport.lost


async def test_max_connections_per_ip_and_overrides() -> None:
    limits = {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "10.0.0.2:2"}
    async with Rig(config=limits) as rig:
        assert await admitted(rig.connect("10.0.0.1"))
        assert await rig.connect("10.0.0.1").closed()
        one, other = rig.connect("10.0.0.2"), rig.connect("10.0.0.2")
        assert await admitted(one)
        assert await admitted(other)
        assert await rig.connect("10.0.0.2").closed()
        one.transport.reset()
        await settle()
        assert await admitted(rig.connect("10.0.0.2"))


async def test_an_idle_connection_is_closed_and_one_in_use_is_not() -> None:
    async with Rig(config={"connections.max.idle.ms": "1000"}) as rig:
        idle, used = rig.connect(), rig.connect()
        for _ in range(4):
            await rig.clock.run(300)
            assert await admitted(used)
        assert idle.transport.lost
        assert not used.transport.lost
        await rig.clock.run(999)
        assert not used.transport.lost
        await rig.clock.run(2)
        assert used.transport.lost
        assert rig.node.server.closed.total() == 2


async def test_a_waiting_request_keeps_its_connection_open() -> None:
    async with Rig(config={"connections.max.idle.ms": "1000"}) as rig:
        await rig.create("t")
        client = rig.connect()
        client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=5000))
        timers = 0
        while rig.clock.monotonic_ms() < 4000:
            due_ms = rig.clock.next_deadline_ms()
            assert due_ms is not None
            await rig.clock.run(due_ms - rig.clock.monotonic_ms())
            timers += 1
        assert not client.transport.lost
        assert timers < 50, "it is not looked at all the time"
        await rig.clock.run(1501)
        assert len(client.replies()) == 1


async def test_an_idle_client_that_takes_nothing_does_not_stay() -> None:
    async with Rig(config={"connections.max.idle.ms": "1000"}) as rig:
        client = rig.connect()
        client.transport.stalled = True
        client.transport.feed(frame("api_versions", 0, 1))
        await rig.clock.run(1001)
        assert client.transport.lost
        assert not rig.node.server.connections


async def test_stop_answers_long_polls_at_once_and_refuses_new_connections() -> None:
    rig = Rig()
    await rig.start()
    await rig.create("t")
    client = rig.connect()
    client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=30_000))
    await settle()
    stopping = asyncio.ensure_future(rig.node.stop())
    await settle()
    (reply,) = client.replies()
    assert answer(reply, "fetch", 12).responses[0].partitions[0].high_watermark == 0
    assert await client.closed()
    assert await rig.connect().closed()
    await rig.clock.run(10)
    assert await stopping


async def test_stop_waits_for_the_flush_that_an_acknowledgement_waits_for() -> None:
    workers = QueuedWorkers()
    rig = Rig(workers=workers)
    await rig.start()
    await rig.create("t", 1, flush_messages="1")
    client = rig.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"a")}))
    stopping = asyncio.ensure_future(rig.node.stop())
    await rig.clock.run(FINISH_MS / 2)
    assert client.replies() == []
    workers.run_all()
    await settle()
    (reply,) = client.replies()
    assert answer(reply, "produce", 9).responses[0].partition_responses[0].error_code.name == "none"
    await rig.clock.run(10)
    assert await stopping


async def test_stop_does_not_wait_longer_for_a_client_that_takes_nothing() -> None:
    rig = Rig()
    await rig.start()
    client = rig.connect()
    client.transport.stalled = True
    client.transport.feed(frame("api_versions", 0, 1))
    stopping = asyncio.ensure_future(rig.node.stop())
    await rig.clock.run(FINISH_MS + 20)
    assert await stopping
    assert client.transport.lost


async def test_a_topic_being_created_when_the_node_stops_is_there_afterwards() -> None:
    rig = Rig()
    await rig.start()
    creating = asyncio.ensure_future(rig.create("t", 3))
    await asyncio.sleep(0)
    await rig.stop()
    await settle()
    creating.cancel()
    following = Rig(fs=rig.fs, clock=rig.clock)
    await following.start()
    topic = following.node.cluster.cache.topic("t")
    assert topic is not None
    assert all(following.node.replicas.get("t", index) is not None for index in range(3))
    await following.stop()


async def nothing(_bound: list[asyncio.Server]) -> None:
    """Do nothing."""


def servers_bound(
    monkeypatch: pytest.MonkeyPatch, before_each: Callable[[list[asyncio.Server]], Awaitable[None]] = nothing
) -> list[asyncio.Server]:
    """The servers that are bound from now on; `before_each` is called with those bound before."""
    loop = asyncio.get_running_loop()
    bind = loop.create_server
    bound: list[asyncio.Server] = []

    async def create_server(*args: Any, **kwargs: Any) -> Any:
        await before_each(bound)
        bound.append(await bind(*args, **kwargs))
        return bound[-1]

    monkeypatch.setattr(loop, "create_server", create_server)
    return bound


@pytest.mark.long
async def test_a_taken_address_leaves_the_data_in_good_order(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    rig = Rig()
    await rig.start()
    await rig.create("t")
    await rig.node.coordinators.groups.ensure_topic()
    await rig.stop()
    second = Rig(fs=rig.fs, clock=rig.clock)
    free = Listener("FREE", "PLAINTEXT", "127.0.0.1", 0)
    bound = servers_bound(monkeypatch)
    second.listeners = (free, Listener("TAKEN", "PLAINTEXT", "127.0.0.1", port))
    with pytest.raises(ListenError, match=f"listener TAKEN cannot be bound to 127.0.0.1:{port}"):
        await second.start()
    assert rig.fs.exists("/data/.kafka_cleanshutdown")
    assert rig.fs.open_files == 0
    (listening,) = bound
    assert not listening.sockets
    taken.close()
    third = Rig(fs=rig.fs, clock=rig.clock)
    await third.start()
    await third.stop()


async def test_a_stop_that_meets_something_unforeseen_closes_the_logs_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    await rig.start()
    await rig.create("t")

    async def fail() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(rig.node.replicas.moves, "stop", fail)
    assert await rig.node.stop() is Stopped.UNCLEAN
    assert rig.fs.open_files == 0
    assert rig.fs.exists("/data/.kafka_cleanshutdown")


async def test_nobody_is_served_before_every_listener_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else Metadata would be asked for addresses that are not known yet."""
    rig = Rig()
    rig.listeners = tuple(Listener(name, "PLAINTEXT", "127.0.0.1", 0) for name in ("ONE", "TWO"))
    refused = []

    async def try_to_connect(bound: list[asyncio.Server]) -> None:
        for server in bound:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            refused.append(port)

    servers_bound(monkeypatch, try_to_connect)
    await rig.start()
    assert len(refused) == 1
    for port in rig.node.server.bound.values():
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
    await rig.stop()


def ipv6() -> list[socket.AddressFamily]:
    """The address family, if the kernel has it (`socket.has_ipv6` only tells how Python was compiled)."""
    try:
        socket.socket(socket.AF_INET6).close()
    except OSError:
        return []
    return [socket.AF_INET6]


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
async def test_a_listener_on_every_address_has_one_port_for_ipv4_and_ipv6(host: str) -> None:
    rig = Rig()
    rig.listeners = (Listener("ANY", "PLAINTEXT", host, 0),)
    await rig.start()
    sockets = [sock for _, server in rig.node.server._servers for sock in server.sockets]
    assert {sock.getsockname()[1] for sock in sockets} == {rig.node.server.bound["ANY"]} != {0}
    assert {sock.family for sock in sockets} == {socket.AF_INET, *ipv6()}
    await rig.stop()


async def test_a_port_that_only_one_address_family_has_free_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.listeners = (Listener("ANY", "PLAINTEXT", "", 0),)
    bind = asyncio.get_running_loop().create_server
    refused: list[int] = []

    async def create_server(factory: Any, host: str | None, port: int, **kwargs: Any) -> Any:
        if port and not refused:
            refused.append(port)
            raise OSError(errno.EADDRINUSE, "in use")
        return await bind(factory, host, port, **kwargs)

    monkeypatch.setattr(asyncio.get_running_loop(), "create_server", create_server)
    await rig.start()
    assert len(refused) == 1
    assert rig.node.server.bound["ANY"] > 0
    await rig.stop()


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        ({}, [(socket.SO_SNDBUF, 102400)]),
        ({"socket.send.buffer.bytes": "-1"}, []),
        ({"socket.receive.buffer.bytes": "65536"}, [(socket.SO_SNDBUF, 102400), (socket.SO_RCVBUF, 65536)]),
    ],
)
async def test_socket_buffers(config: dict[str, str], asked: list[tuple[int, int]]) -> None:
    class Socket:
        def setsockopt(self, level: int, option: int, size: int) -> None:
            assert level == socket.SOL_SOCKET
            found.append((option, size))

    found: list[tuple[int, int]] = []
    async with Rig(config=config) as rig:
        rig.node.server.size_buffers(asyncio.BaseTransport({"socket": Socket()}))
        rig.node.server.size_buffers(asyncio.BaseTransport())
    assert found == asked


async def test_a_stop_costs_no_sync_for_each_topic() -> None:
    """The metadata log gets one batch in which all partitions lose their leader; logs without news are left alone."""
    rig = Rig()
    await rig.start()
    for number in range(30):
        await rig.create(f"t{number}", 10)
    await rig.stop()
    again = Rig(fs=rig.fs, clock=rig.clock, seed=2)
    await again.start()
    log = again.node.metadata.log.log
    size, syncs = log.segments.active.size, count_of_syncs(rig.fs)
    batches: list[str] = []

    def count(operation: str, path: str) -> None:
        if operation == "pwrite" and path.startswith("/data/__cluster_metadata-0/") and path.endswith(".log"):
            batches.append(path)

    rig.fs.hook = count
    await again.stop()
    assert len(batches) == 1
    assert log.segments.active.size > size
    assert count_of_syncs(rig.fs) - syncs < 20


def count_of_syncs(fs: MemoryFileSystem) -> int:
    return fs.operations["fdatasync"] + fs.operations["fsync_dir"]
