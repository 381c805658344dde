"""A whole node in memory and in virtual time; its clients are transports made of two byte buffers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from kio.schema.alter_configs.v2.request import AlterableConfig, AlterConfigsResource
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig
from kio.schema.delete_topics.v6.request import DeleteTopicState

from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Listener, Listeners
from broker.network.connection import Connection
from broker.network.dispatch import Route
from broker.node import Node
from broker.node_start import start_node
from broker.node_state import Seams
from metadata.configs import ResourceType
from storage.workers import Workers
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.doubles.workers import LoopWorkers, QueuedWorkers
from tests.unit.broker.wire import answer, frame
from timing.clock import Clock

HIGH_WATER = 64 * 1024
"""From so many unsent bytes on a transport asks its protocol to stop writing, as asyncio's and uvloop's do."""


class FakeTransport(asyncio.Transport):
    """The broker's end of a connection.

    Attributes:
        sent: what the broker wrote and the client took.
        stalled: the client takes nothing more; then `unsent` grows.
        arrived: what the client sent while the broker was not reading.
    """

    def __init__(self, protocol: asyncio.BufferedProtocol, host: str) -> None:
        super().__init__({"peername": (host, 50000)})
        self.protocol = protocol
        self.sent = bytearray()
        self.unsent = bytearray()
        self.arrived = bytearray()
        self.stalled = False
        self.reading = True
        self.closing = False
        self.lost = False
        self.writes = 0
        self._got_eof = False
        self._writing_paused = False

    # -- the broker's side

    def write(self, data: Any) -> None:
        if self.lost:
            raise RuntimeError("the handler is closed")  # as uvloop does
        self.writes += 1
        (self.unsent if self.stalled else self.sent).extend(data)
        if len(self.unsent) > HIGH_WATER and not self._writing_paused:
            self._writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed twice"
        self.reading = True
        asyncio.get_running_loop().call_soon(self._deliver)

    def is_reading(self) -> bool:
        return self.reading

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        if not self.unsent:
            self._lose()

    def abort(self) -> None:
        self.closing = True
        self.unsent.clear()
        self._lose()

    def _lose(self, error: Exception | None = None) -> None:
        if not self.lost:
            self.lost = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, error)

    # -- the client's side

    def feed(self, data: bytes) -> None:
        self.arrived += data
        self._deliver()

    def half_close(self) -> None:
        self._got_eof = True
        self._deliver()

    def reset(self) -> None:
        """End the connection with an error, as the kernel reports a client that is gone."""
        self.closing = True
        self._lose(ConnectionResetError())

    def take(self) -> None:
        """The client reads on."""
        self.stalled = False
        self.sent += self.unsent
        self.unsent.clear()
        if self.closing:
            self._lose()
        elif self._writing_paused:
            self._writing_paused = False
            self.protocol.resume_writing()

    def _deliver(self) -> None:
        while self.arrived and self.reading and not self.closing:
            buffer = memoryview(self.protocol.get_buffer(-1))
            count = min(len(buffer), len(self.arrived))
            assert count, "get_buffer() returned an empty buffer"
            buffer[:count] = self.arrived[:count]
            del self.arrived[:count]
            self.protocol.buffer_updated(count)
        if self._got_eof and self.reading and not self.arrived and not self.closing:
            self._got_eof = False
            if not self.protocol.eof_received():
                self.close()


@dataclass
class Client:
    """One connection to the node."""

    rig: Rig
    transport: FakeTransport
    connection: Connection
    correlation: int = 0
    _read: int = 0

    def send(self, api: str, version: int, **fields: Any) -> int:
        """Send one request; return its correlation id."""
        self.correlation += 1
        self.transport.feed(frame(api, version, self.correlation, **fields))
        return self.correlation

    def replies(self) -> list[bytes]:
        """Whole reply frames since the last call, without their sizes."""
        found = []
        sent = self.transport.sent
        while len(sent) >= self._read + 4:
            size = int.from_bytes(sent[self._read : self._read + 4], "big")
            if len(sent) < self._read + 4 + size:
                break
            found.append(bytes(sent[self._read + 4 : self._read + 4 + size]))
            self._read += 4 + size
        return found

    async def ask(self, api: str, version: int, **fields: Any) -> Any:
        """The answer to one request, which must come without time passing."""
        self.send(api, version, **fields)
        await settle()
        (reply,) = self.replies()
        return answer(reply, api, version)

    async def closed(self) -> bool:
        await settle()
        return self.transport.lost


class Rig:
    """`async with Rig() as rig:`; then `rig.connect()`, and what the tests need most often."""

    def __init__(
        self,
        *,
        fs: MemoryFileSystem | None = None,
        workers: Workers | None = None,
        clock: ManualClock | None = None,
        seed: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.fs = fs or MemoryFileSystem(self.clock.wall_ms)
        self.workers = workers or LoopWorkers()
        self.config = dict(config or {})
        self.seed = seed
        self.node_clock: Clock = self.clock
        self.listeners: tuple[Listener, ...] = ()  # real sockets, for the tests of listening itself
        self.node: Node

    async def start(self) -> None:
        config = BrokerConfig.of({"node.id": "1", "log.dirs": "/data", "odradek.http.port": "-1", **self.config})
        address = Listener("PLAINTEXT", "PLAINTEXT", "broker.example", 9092)
        seams = Seams(self.node_clock, self.fs, self.workers, random.Random(self.seed))
        self.node = await start_node(config, Listeners(self.listeners, self.listeners or (address,), ()), seams)

    async def stop(self) -> None:
        """Stop cleanly, moving time as far as that needs."""
        stopping = asyncio.ensure_future(self.node.stop())
        while not stopping.done():
            await self.clock.run(10)
        await stopping

    async def crash(self, unsynced: Unsynced = Unsynced.LOST) -> Rig:
        """The machine fails and comes up again: the next node, over what the disk kept."""
        self.fs.crash(unsynced)
        workers = QueuedWorkers() if isinstance(self.workers, QueuedWorkers) else LoopWorkers()
        following = Rig(fs=self.fs, clock=self.clock, workers=workers, seed=self.seed + 1, config=self.config)
        await following.start()
        return following

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

    def route(self, api_key: int) -> Route:
        """The route of an API, its handler imported."""
        route = self.node.dispatcher.route(api_key)
        route.load()
        return route

    def connect(self, host: str = "10.0.0.7", listener: str = "PLAINTEXT") -> Client:
        connection = self.node.server.new_connection(listener)
        assert isinstance(connection, Connection)
        transport = FakeTransport(connection, host)
        connection.connection_made(transport)
        return Client(self, transport, connection)

    async def secure(self, name: str, protocol: str) -> None:
        """Have one more listener, with SASL or TLS, as `config` says."""
        await self.node.local.security.open([Listener(name, protocol, "broker.example", 9093)])

    async def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """A topic, `flush_messages="1"` for flush.messages=1."""
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            assignments=(),
            configs=tuple(
                CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()
            ),
        )
        client = self.connect()
        done = await client.ask(
            "create_topics", 7, topics=(wanted,), timeout=timedelta(seconds=30), validate_only=False
        )
        assert [one.error_code.name for one in done.topics] == ["none"]
        client.transport.reset()
        await settle()

    async def configure(self, topic: str, **configs: str) -> None:
        """Let a topic have these configurations and no others, named as for `create`."""
        client = self.connect()
        changes = tuple(AlterableConfig(name=name.replace("_", "."), value=value) for name, value in configs.items())
        resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=topic, configs=changes)
        done = await client.ask("alter_configs", 2, resources=(resource,), validate_only=False)
        assert [one.error_code.name for one in done.responses] == ["none"]
        client.transport.reset()
        await settle()

    async def delete(self, topic: str) -> None:
        client = self.connect()
        named = DeleteTopicState(name=topic, topic_id=None)
        done = await client.ask("delete_topics", 6, topics=(named,), timeout=timedelta(seconds=30))
        assert [one.error_code.name for one in done.responses] == ["none"]
        client.transport.reset()
        await settle()
