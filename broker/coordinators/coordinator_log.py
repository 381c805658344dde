"""A partition as a coordinator's log (`coordinator.runtime.log_port.LogPort`)."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable

import structlog

from broker.replication.partition import Partition
from protocol.errors import CorruptMessage, KafkaError, KafkaStorage
from protocol.records.batch import LOG_OVERHEAD, read_header
from storage.append_types import AppendOrigin
from storage.log.log_services import DESCRIPTORS_RETRY_MS
from timing.clock import Clock

logger = structlog.get_logger(__name__)

_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8


class PartitionCoordinatorLog:
    """Appends with origin COORDINATOR; reads the log in pieces of about `load_buffer_bytes`."""

    def __init__(self, partition: Partition, clock: Clock, load_buffer_bytes: int) -> None:
        self._partition = partition
        self._clock = clock
        self._load_buffer_bytes = load_buffer_bytes

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark

    @property
    def log_end_offset(self) -> int:
        return self._partition.log_end_offset

    @property
    def max_batch_bytes(self) -> int:
        return self._partition.log.config.max_message_bytes

    def append(self, batch: bytearray) -> int:
        """See `Partition.append` for the errors."""
        info = self._partition.append(memoryview(batch), AppendOrigin.COORDINATOR, self._clock.wall_ms())
        return info.first_offset

    def listen(self, advanced: Callable[[int], None], failed: Callable[[KafkaError], None]) -> Callable[[], None]:
        return self._partition.listen(advanced, failed)

    async def batches(self) -> AsyncIterator[memoryview]:
        partition = self._partition
        log = partition.log
        end = log.log_end_offset
        offset = log.log_start_offset
        while offset < end:
            data = await self._read(offset)
            if not data:
                break  # compaction has removed the end
            whole, offset = _whole_batches(data, offset)
            if not whole:
                raise CorruptMessage(f"{partition.topic}-{partition.index} is cut short at offset {offset}.")
            yield data[:whole]
        if log.is_offline:  # it went offline since the last read, and no listener is notified
            raise log.storage_error()

    async def _read(self, offset: int) -> memoryview:
        """Read, retrying while no descriptor is free: a coordinator that failed to load is never loaded again."""
        log = self._partition.log
        while True:
            try:
                return memoryview(await log.plan_read(offset, self._load_buffer_bytes, log.end, True).read())
            except KafkaStorage as error:
                if log.is_offline:
                    raise
                logger.warning("coordinator waits to be loaded", partition=log.name, error=str(error))
            await self._clock.machine.sleep(DESCRIPTORS_RETRY_MS)


def _whole_batches(data: memoryview, offset: int) -> tuple[int, int]:
    """The size in bytes of the whole batches at the front, and the offset after them."""
    at = 0
    while at + LOG_OVERHEAD <= len(data):
        end = at + LOG_OVERHEAD + _LENGTH.unpack_from(data, at + _LENGTH_AT)[0]
        if end > len(data):
            break
        offset = read_header(data, at).next_offset
        at = end
    return at, offset
