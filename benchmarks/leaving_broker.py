"""How long the controller takes the loop when many partitions change: `python -m benchmarks.leaving_broker [NAME...]`.

Odradek's own controller alone, in one process: no files, and nobody follows the metadata. A broker leads half of 10,000
topics, and is in sync in all. It is fenced, shuts down, is unregistered, loses a folder; all topics are reassigned; one
topic changes. Printed are the longest turn of the loop and the sum of all, in milliseconds of this thread.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from kio.schema.alter_partition_reassignments.v1 import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic
from kio.schema.broker_heartbeat.v2 import BrokerHeartbeatRequest

from broker.membership.controller_service import ControllerService
from controller.decision import Decision
from controller.local import LocalController
from controller.quorum.metadata_batches import encode_values
from controller.reassignments import Reassignments
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol.metadata.topics import PartitionChangeRecord
from tests.doubles.clock import ManualClock
from tests.doubles.metadata_log import MemoryMetadataLog
from tests.unit.controller.images import Schema, around, broker, directory, image_of, topic

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


REASSIGNMENT = AlterPartitionReassignmentsRequest(
    topics=tuple(
        ReassignableTopic(name=f"t{number}", partitions=(ReassignablePartition(partition_index=0, replicas=(3, 4)),))
        for number in range(TOPICS)
    ),
    timeout=timedelta(seconds=1),
)


@dataclass
class Cluster:
    """A controller with brokers 2, 3 and 4, and the topics."""

    local: LocalController
    service: ControllerService

    async def fenced(self) -> None:
        await self.service.end_session(2)

    async def shut_down(self) -> None:
        await self._heartbeat(want_shut_down=True)

    async def unregistered(self) -> None:
        await self.service.unregister(2)

    async def lost_folder(self) -> None:
        await self._heartbeat(offline_log_dirs=(directory(2),))

    async def reassigned(self) -> None:
        reassignments = Reassignments(REASSIGNMENT, Schema())
        while await self.local.submit(reassignments.step):
            pass

    async def one_topic_changed(self) -> None:
        record = PartitionChangeRecord(topic_id=UUID(int=1), partition_id=0, isr=(2,))
        await self.local.submit(lambda _image: Decision([record], None))

    async def _heartbeat(self, **fields: Any) -> None:
        asked: dict[str, Any] = {"want_fence": False, "want_shut_down": False, "offline_log_dirs": ()} | fields
        await self.service.heartbeat(
            BrokerHeartbeatRequest(
                broker_id=2, broker_epoch=5, current_metadata_offset=9, cordoned_log_dirs=None, **asked
            )
        )


EVENTS: dict[str, Callable[[Cluster], Awaitable[None]]] = {
    "fenced": Cluster.fenced,
    "shut-down": Cluster.shut_down,
    "unregistered": Cluster.unregistered,
    "lost-folder": Cluster.lost_folder,
    "reassigned": Cluster.reassigned,
    "one-topic": Cluster.one_topic_changed,
}


async def turns_of(happen: Callable[[Cluster], Awaitable[None]]) -> list[float]:
    replicas = ([2, 3], [3, 2])
    topics = [record for number in range(TOPICS) for record in topic(f"t{number}", number + 1, replicas[number % 2])]
    brokers = broker(2, log_dirs=(directory(2), UUID(int=77))), broker(3), broker(4)
    local = LocalController(EncodingLog(), image_of(*brokers, *topics), publish, around())
    not_read = cast(Any, SimpleNamespace(call_when_durable=lambda _moved: None))
    service = ControllerService(local, not_read, ManualClock(), "c", 9_000)
    service.begin()
    gc.freeze()  # as a node does once it has started
    turns: list[float] = []
    measuring = asyncio.ensure_future(measure(turns))
    await asyncio.sleep(0)
    await happen(Cluster(local, service))
    await asyncio.sleep(0)
    measuring.cancel()
    return turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", nargs="*", metavar="NAME", help=", ".join(EVENTS))
    for name in parser.parse_args().events or EVENTS:
        turns = asyncio.run(turns_of(EVENTS[name]))
        sys.stdout.write(f"{name}: longest turn {max(turns):.1f} ms, all {sum(turns):.0f} ms\n")


if __name__ == "__main__":
    main()
