"""Waiting for what this node has appended by itself, as leader, to be committed."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from typing import TYPE_CHECKING

from protocol.errors import KafkaError, Timeout

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from timing.wheel import TimingWheel

WRITE_TIMEOUT_MS = 30_000
"""Kafka's request.timeout.ms between brokers."""


def until_committed(partition: Partition, end: int, wheel: TimingWheel) -> Future[None] | None:
    """Done once the high watermark is at `end`, the offset after an append just made; None if it is there already.

    Fails with Timeout, and with the partition's error as soon as this node no longer leads it.
    """
    if partition.high_watermark >= end:
        return None
    future: Future[None] = get_running_loop().create_future()

    def advanced(high_watermark: int) -> None:
        if high_watermark >= end and not future.done():
            future.set_result(None)

    def failed(error: KafkaError) -> None:
        if not future.done():
            future.set_exception(error)

    unlisten = partition.listen(advanced, failed)
    timer = wheel.add(WRITE_TIMEOUT_MS, lambda: failed(Timeout()))

    def over(_: Future[None]) -> None:
        unlisten()
        timer.cancel()

    future.add_done_callback(over)
    return future
