"""One shard of the share coordinator over a log in memory, in virtual time."""

from __future__ import annotations

from asyncio import Future
from uuid import UUID

from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.share.share_coordinator_shard import ROWS, ShareCoordinatorShard, ShareWrite
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue
from tests.doubles.clock import ManualClock
from tests.unit.coordinator.asking import ask
from tests.unit.coordinator.memory_log import MemoryLog
from timing.wheel import TimingWheel

TOPIC = UUID(int=7)
KEY = SharePartitionKey("g", TOPIC, 0)
SNAPSHOT_EVERY = 3


class Rig:
    """`await Rig().started()`; topic `TOPIC` has the partitions 0 and 1."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog()
        self._wheel = TimingWheel(self.clock)
        self.runtime: CoordinatorRuntime[ShareCoordinatorShard]

    async def started(self) -> Rig:
        """Load what the log has: also after another shard has written it."""
        self.runtime = CoordinatorRuntime(
            "__share_group_state", ROWS, self._new_state, clock=self.clock, wheel=self._wheel
        )
        self.runtime.load(0, self.log)
        await self.runtime.loaded()
        return self

    def _new_state(self, context: CoordinatorContext[ShareCoordinatorShard]) -> ShareCoordinatorShard:
        return ShareCoordinatorShard(context, lambda topic, index: topic == TOPIC and index < 2, SNAPSHOT_EVERY)

    def initialize(self, epoch: int, start_offset: int = 0, key: SharePartitionKey = KEY) -> Future[None]:
        return ask(self.runtime, lambda state: state.initialize(key, epoch, start_offset))

    def write(self, wanted: ShareWrite, key: SharePartitionKey = KEY) -> Future[None]:
        return ask(self.runtime, lambda state: state.write(key, wanted))

    def read(self, leader_epoch: int = 0, key: SharePartitionKey = KEY) -> ShareSnapshotValue:
        return ask(self.runtime, lambda state: state.read(key, leader_epoch)).result()

    def redundant_below(self) -> int:
        return self.runtime.read(0, lambda state: state.redundant_below()).result()
