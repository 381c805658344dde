"""How long the controller takes the loop when a broker leaves: `python -m benchmarks.leaving_broker`, in one process.

Odradek's own controller alone: no files, and nobody follows the metadata. A broker leads half of 10,000 topics, is in
sync in all, and is fenced. Printed are the longest turn of the loop and the sum of all, in milliseconds of this thread.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from broker.membership.controller_service import ControllerService
from controller.local import LocalController
from controller.quorum.metadata_batches import encode_values
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from tests.doubles.clock import ManualClock
from tests.doubles.metadata_log import MemoryMetadataLog
from tests.unit.controller.images import around, broker, image_of, topic

TOPICS = 10_000


class EncodingLog(MemoryMetadataLog):
    """Encodes what is appended, as a log on a disk does."""

    def append(self, records: Sequence[Any]) -> int:
        encode_values(records)
        return super().append(records)


async def publish(_delta: MetadataDelta, _image: MetadataImage) -> None:
    """Nobody follows."""


async def measure(turns: list[float]) -> None:
    """Note how long each turn takes."""
    before = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        turns.append((now - before) * 1000)
        before = now


async def main() -> None:
    replicas = ([2, 3], [3, 2])
    topics = [record for number in range(TOPICS) for record in topic(f"t{number}", number + 1, replicas[number % 2])]
    local = LocalController(EncodingLog(), image_of(broker(2), broker(3), *topics), publish, around())
    not_read = cast(Any, SimpleNamespace(call_when_durable=lambda _moved: None))
    service = ControllerService(local, not_read, ManualClock(), "c", 9_000)
    service.begin()
    gc.freeze()  # as a node does once it has started
    turns: list[float] = []
    measuring = asyncio.ensure_future(measure(turns))
    await asyncio.sleep(0)
    await service.end_session(2)
    measuring.cancel()
    sys.stdout.write(f"longest turn {max(turns):.1f} ms, all {sum(turns):.0f} ms\n")


if __name__ == "__main__":
    asyncio.run(main())
