"""`__remote_log_metadata`, wherever its partitions are led: read from the first record on, and written.

Theory of operation. Of each partition that is wanted all records are taken in their order, as far as they are
committed. There is a reader for each leader of some of them, this node among them; it ends when it has none.

| what a reader finds                    | what is done                                                          |
| -------------------------------------- | --------------------------------------------------------------------- |
| records                                | they are taken; who waits for one of them goes on                     |
| the log begins later                   | it is read from there on: retention has removed the others            |
| the log ends earlier                   | an unclean election: all is forgotten and read anew                   |
| another leader, or no answer           | after a pause the partitions are read from whoever leads them then    |

A record is written as by a producer with acks=all, here or elsewhere, and counts once it is read back: so all brokers
see the same records in the same order. What may not have arrived is written again; the same record twice does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from broker.peers.call import PeerError
from broker.replication.waits import until_committed
from broker.tiering.metadata_positions import Position
from broker.tiering.metadata_sources import NOT_SURE, Elsewhere, Found, Here, Source, batches_in
from metadata.topic_names import REMOTE_LOG_METADATA_TOPIC_NAME as TOPIC
from protocol.errors import (
    KafkaError,
    LeaderNotAvailable,
    Network,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    Timeout,
    UnknownTopicOrPartition,
)
from protocol.primitives import DecodeError
from protocol.records.build import Record, build_batch, iter_records
from storage.append_types import AppendOrigin

if TYPE_CHECKING:
    from uuid import UUID

    from broker.coordinators.hosted import Host

logger = structlog.get_logger(__name__)

RETRY_MS = 500
WRITE_MS = 30_000
"""How long a record is tried to be written, and then waited for."""
PASSING = (
    LeaderNotAvailable,
    Network,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
"""Errors after which a record is written again: leaders move, and images are late."""
RECORDS_AT_A_TIME = 100


class MetadataTopic:
    """See the theory of operation above.

    `take(record)` gets the records, `forget(index)` is called when those of a partition are to be read anew.
    """

    def __init__(self, host: Host, take: Callable[[Record], None], forget: Callable[[int], None]) -> None:
        self._host = host
        self._clock = host.clock.machine
        self._take = take
        self._forget = forget
        self._topic_id: UUID | None = None
        self._positions: dict[int, Position] = {}
        self._readers: dict[int, tuple[asyncio.Task[None], Source]] = {}

    @property
    def partition_count(self) -> int:
        """0 if the topic does not exist."""
        topic = self._host.cache.topic(TOPIC)
        return 0 if topic is None else topic.partition_count

    def leader(self, index: int) -> int:
        """The broker that leads a partition; -1 for none."""
        topic = self._host.cache.topic(TOPIC)
        partition = None if topic is None else topic.partitions.get(index)
        return -1 if partition is None else partition.leader

    def is_led_here(self, index: int) -> bool:
        return self.leader(index) == self._host.node_id

    # -- reading

    def want(self, index: int) -> Position:
        """Read this partition, from now on."""
        position = self._positions.get(index)
        if position is None:
            position = self._positions[index] = Position()
            self._begin(self.leader(index))
        return position

    def is_known(self, index: int) -> bool:
        """Whether all of a partition is read that there was when it was first wanted."""
        position = self._positions.get(index)
        return position is not None and position.known.done()

    @property
    def are_all_known(self) -> bool:
        return all(position.known.done() for position in self._positions.values())

    def follow(self) -> None:
        """Read each partition from its leader, as the image now has it."""
        topic = self._host.cache.topic(TOPIC)
        topic_id = None if topic is None else topic.id
        if topic_id != self._topic_id:
            indexes, self._positions, self._topic_id = list(self._positions), {}, topic_id
            for index in indexes:
                self._forget(index)
            for task, _ in self._readers.values():
                task.cancel()  # it asks for the topic by the id that it had
            self._readers.clear()
        for index in self._positions:
            self._begin(self.leader(index))
        for _, source in self._readers.values():
            source.wake()

    def _begin(self, leader: int) -> None:
        if leader < 0 or self._topic_id is None:
            return
        if leader in self._readers:
            self._readers[leader][1].wake()
            return
        host = self._host
        source: Source = (
            Here(host.replicas)
            if leader == host.node_id
            else Elsewhere(leader, self._topic_id, host.brokers, host.replicas.connect)
        )
        self._readers[leader] = asyncio.ensure_future(self._read(leader, source)), source

    def _led_by(self, leader: int) -> dict[int, Position]:
        return {index: position for index, position in self._positions.items() if self.leader(index) == leader}

    async def _read(self, leader: int, source: Source) -> None:
        says = True
        try:
            while wanted := self._led_by(leader):
                try:
                    for found in await source.read(wanted):
                        if self._positions.get(found.partition) is wanted[found.partition]:
                            await self._found(wanted[found.partition], found)
                    says = True
                except Exception as error:  # unforeseen ones, too: nobody else reads these partitions on
                    if says:
                        why = None if isinstance(error, KafkaError | PeerError | DecodeError) else error
                        logger.warning(
                            "metadata of remote storage not read", leader=leader, error=str(error), exc_info=why
                        )
                    says = False
                    source.close()
                    await self._clock.sleep(RETRY_MS)
        finally:
            source.close()
            if self._readers.get(leader, (None, None))[1] is source:
                del self._readers[leader]

    async def _found(self, position: Position, found: Found) -> None:
        if position.end is None:
            position.end = found.end
        if position.next_offset < found.start:
            position.move(found.start)
        elif found.end != NOT_SURE and position.next_offset > found.end:
            logger.warning("metadata of remote storage read anew", partition=found.partition, end=found.end)
            position.restart(found.start, found.end)
            self._forget(found.partition)
        count, restarts = 0, position.restarts
        for batch, header in batches_in(found.data):
            try:
                for record in iter_records(batch, header) if not header.is_control else ():
                    if record.offset >= position.next_offset:  # else another leader's reader has come before
                        self._take(record)
                        position.next_offset = record.offset + 1
                    count += 1
                    if not count % RECORDS_AT_A_TIME:
                        await self._clock.sleep(0)
                        if position.restarts != restarts:
                            return
            except ValueError as error:
                logger.error("batch of remote storage left out", offset=header.base_offset, error=str(error))
            position.move(max(position.next_offset, header.next_offset))
        position.move(position.next_offset)

    async def stop(self) -> None:
        """Read no more."""
        tasks = [task for task, _ in self._readers.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- writing

    async def write(self, index: int, value: bytes) -> None:
        """Write a record, and wait until it is read back. Raises KafkaError."""
        clock, position = self._clock, self.want(index)
        deadline_ms = clock.monotonic_ms() + WRITE_MS
        while True:
            try:
                offset = await (self._append_here if self.is_led_here(index) else self._append_elsewhere)(index, value)
                break
            except PASSING as error:
                if clock.monotonic_ms() >= deadline_ms:
                    raise
                logger.debug("metadata of remote storage not written", partition=index, error=str(error))
                await clock.sleep(RETRY_MS)
        read = position.until_read(offset)
        late = asyncio.ensure_future(clock.sleep(WRITE_MS))
        try:
            await asyncio.wait((read, late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            late.cancel()
        if not read.done():
            read.cancel()
            raise Timeout(f"The record at offset {offset} of {TOPIC}-{index} was written, and not read in time.")

    async def _append_here(self, index: int, value: bytes) -> int:
        host = self._host
        partition, now_ms = host.replicas.find(TOPIC, index), host.clock.wall_ms()
        info = partition.append(memoryview(_batch(value, now_ms)), AppendOrigin.COORDINATOR, now_ms)
        committed = until_committed(partition, info.last_offset + 1, host.wheel)
        if committed is not None:
            await committed
        return info.last_offset

    async def _append_elsewhere(self, index: int, value: bytes) -> int:
        from broker.tiering.metadata_produce import produce

        leader = self.leader(index)
        if leader < 0:
            raise LeaderNotAvailable(f"{TOPIC}-{index} has no leader.")
        batch = _batch(value, self._host.clock.wall_ms())
        return await produce(self._host.brokers.reach, leader, index, bytes(batch), WRITE_MS)


def _batch(value: bytes, now_ms: int) -> bytearray:
    return build_batch([Record(0, now_ms, None, value, ())])
