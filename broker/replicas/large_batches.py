"""Checks of large batches in worker threads: decompressing, walking and compressing them may take more than 5 ms.

Only a few are checked at once, in the order in which they came: the checks that are written in Python share the
interpreter's lock with the loop. How much of them is in memory is bounded by `protocol.records.walk`.
"""

from __future__ import annotations

import asyncio
from functools import partial

from broker.replicas.partition import Partition
from storage.append_types import AppendOrigin
from storage.log.validator import Validated, validate
from storage.workers import Workers

AT_ONCE = 2


class LargeBatches:
    """Validates batches for partitions in worker threads."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers.lane("large batches")
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def validate(self, partition: Partition, batch: memoryview, now_ms: int) -> Validated:
        """The batch as the partition stores it under the configuration that it has when this returns.

        Raises what `storage.log.validator.validate` does. Other appends go on meanwhile: whatever depends on the log's
        state is checked when this is over.
        """
        async with self._turn:
            while True:
                config = partition.log.config
                check = partial(validate, batch, config, AppendOrigin.CLIENT, now_ms, partition.log.name)
                validated = await self._workers.call(check)
                if partition.log.config is config:
                    return validated
