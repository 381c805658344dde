"""Records of `__remote_log_metadata` from their leader: the log of this node, or another broker.

Both give what is committed. A source is read again and again with the partitions that its leader has; each read waits,
if there is nothing new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from broker.peers.leaders import Unknown, ask_bounds, check
from broker.replication.following.follower_log import fetch_call
from metadata.topic_names import REMOTE_LOG_METADATA_TOPIC_NAME as TOPIC
from protocol.errors import KafkaError, Network
from protocol.primitives import Buffer
from protocol.produce_fetch.fetch_request import FetchPartition, FetchRequest
from protocol.records.batch import HEADER_SIZE, BatchHeader, read_header

if TYPE_CHECKING:
    from uuid import UUID

    from broker.membership.broker_clients import BrokerClients
    from broker.replication.cluster_access import BrokerConnection
    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager
    from broker.tiering.metadata_positions import Position

READ_BYTES = 1 << 20
MOST_READ_BYTES = 10 << 20
WAIT_MS = 500


NOT_SURE = -1


class Found(NamedTuple):
    """What was read of a partition: whole batches, perhaps none, and where the log begins and ends for readers.

    The end is NOT_SURE where a new leader may not know yet what is committed.
    """

    partition: int
    data: Buffer
    start: int
    end: int


class Source(Protocol):
    """A leader of partitions of the topic."""

    async def read(self, wanted: Mapping[int, Position]) -> list[Found]:
        """What there is from these positions on; waits for a change if that is nothing.

        Raises KafkaError and PeerError if nothing was read because of that.
        """

    def wake(self) -> None:
        """End a wait: other partitions are wanted."""

    def close(self) -> None:
        """Read no more."""


class Here:
    """This node's own log."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas
        self._changed = asyncio.Event()
        self._listening: dict[Partition, Callable[[], None]] = {}

    async def read(self, wanted: Mapping[int, Position]) -> list[Found]:
        self._changed.clear()
        found: list[Found] = []
        failed: KafkaError | None = None
        for index, position in wanted.items():
            try:
                partition = self._replicas.find(TOPIC, index)
                partition.check_leads()
                partition.check_end_is_known()
                self._listen(partition)
                found += await self._of(partition, position)
            except KafkaError as error:
                failed = error
        if not found:
            if failed is not None:
                raise failed
            await self._changed.wait()
        return found

    async def _of(self, partition: Partition, position: Position) -> list[Found]:
        start, end, offset = partition.log_start_offset, partition.high_watermark, position.next_offset
        if offset == end and position.end is not None:
            return []
        data: Buffer = b""
        if start <= offset < end:
            data = await partition.log.plan_read(offset, READ_BYTES, partition.place(end), True).read()
        return [Found(partition.index, data, start, end)]

    def _listen(self, partition: Partition) -> None:
        if partition not in self._listening:
            self._listening[partition] = partition.listen(lambda _: self.wake(), lambda _: self.wake())

    def wake(self) -> None:
        self._changed.set()

    def close(self) -> None:
        for end in self._listening.values():
            end()
        self._listening.clear()


class Elsewhere:
    """Another broker, which is asked as consumers ask it."""

    def __init__(
        self,
        leader: int,
        topic_id: UUID,
        brokers: BrokerClients,
        connect: Callable[[int], BrokerConnection | None],
    ) -> None:
        self._leader = leader
        self._topic_id = topic_id
        self._brokers = brokers
        self._connect = connect
        self._peer: BrokerConnection | None = None

    async def read(self, wanted: Mapping[int, Position]) -> list[Found]:
        new = [index for index, position in wanted.items() if position.end is None]
        found, failed = await self._bounds(new)
        asked = [
            FetchPartition(index, position.next_offset, READ_BYTES)
            for index, position in wanted.items()
            if position.end is not None
        ]
        if asked and not found:
            found, failed = await self._fetch(asked)
        if failed is not None and not found:
            raise failed
        return found

    async def _fetch(self, asked: list[FetchPartition]) -> tuple[list[Found], KafkaError | None]:
        """What has come, and why nothing has of some: a Fetch with one of these does not wait for the others."""
        if self._peer is None:
            self._peer = self._connect(self._leader)
        if self._peer is None:
            raise Network(f"broker {self._leader} is not alive")
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=MOST_READ_BYTES,
            topics=[(self._topic_id, asked)],
        )
        response = await self._peer.send(fetch_call(request))
        check(self._leader, ErrorCode(response.error_code))
        found: list[Found] = []
        lost: list[int] = []
        refused = ErrorCode.none
        for _, results in response.topics:
            for one in results:
                code = ErrorCode(one.error_code)
                if code is ErrorCode.offset_out_of_range:
                    lost.append(one.partition_index)
                elif code is not ErrorCode.none:
                    refused = code
                elif one.records:
                    data = memoryview(one.records)  # type: ignore[arg-type]  # it is read
                    found.append(Found(one.partition_index, data, one.log_start_offset, NOT_SURE))
        bounds, failed = await self._bounds(lost)
        found += bounds
        if not found:
            check(self._leader, refused)
        return found, failed

    async def _bounds(self, indexes: list[int]) -> tuple[list[Found], KafkaError | None]:
        """Where partitions begin and end, and why a leader does not say it: it may not know yet what is committed."""
        if not indexes:
            return [], None
        told = await ask_bounds(self._brokers.reach, self._leader, [(TOPIC, index) for index in indexes])
        found: list[Found] = []
        failed = None
        for (_, index), bounds in told.items():
            if isinstance(bounds, Unknown):
                failed = Network(bounds.why)
            else:
                found.append(Found(index, b"", bounds.start, bounds.end))
        return found, failed

    def wake(self) -> None:
        """Do nothing: a Fetch waits for half a second at most."""

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def batches_in(data: Buffer) -> Iterator[tuple[memoryview, BatchHeader]]:
    """The whole batches, each with its header. Raises DecodeError."""
    view, at = memoryview(data), 0
    while at + HEADER_SIZE <= len(view):
        header = read_header(view, at)
        if at + header.size > len(view):
            return
        yield view[at : at + header.size], header
        at += header.size
