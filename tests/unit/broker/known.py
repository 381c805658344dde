"""What clients know of a node's topics and logs, whatever becomes of the process."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from broker.replication.partition import Partition
from protocol.records.batch import read_header
from protocol.records.build import iter_records
from tests.unit.storage.support import contents

Contents = dict[int, bytes | None]


@dataclass
class Log:
    """What is known of a partition's log.

    Attributes:
        sent: values that may be in it.
        owed: what must be found in it, if the log does not start later.
        owed_end: where it ends at the earliest.
        start: where it starts at the earliest: what DeleteRecords has answered.
        flushed: how much of it a power failure leaves.
    """

    topic_id: UUID
    sent: set[bytes | None] = field(default_factory=set)
    owed: Contents = field(default_factory=dict)
    owed_end: int = 0
    start: int = 0
    flushed: int = 0

    def lose_power(self) -> None:
        self.owed = {offset: value for offset, value in self.owed.items() if offset < self.flushed}
        self.owed_end = min(self.owed_end, self.flushed)

    def check(self, partition: Partition) -> None:
        """It has what it must; from now on it must have what it has."""
        start = partition.log_start_offset
        assert self.start <= start, (self.start, start)
        assert partition.log_end_offset >= self.owed_end, (partition.log_end_offset, self.owed_end)
        found = {
            read_header(one).base_offset: next(iter_records(memoryview(one), read_header(one))).value
            for one in contents(partition.log)
        }
        owed = {offset: value for offset, value in self.owed.items() if offset >= start}
        assert owed.items() <= found.items()
        assert len(set(found.values())) == len(found)
        assert set(found.values()) <= self.sent
        self.owed, self.owed_end = found, partition.log_end_offset


@dataclass
class Known:
    """What clients know: the logs of the topics that exist, and the topics of which they know nothing."""

    logs: dict[tuple[str, int], Log] = field(default_factory=dict)
    uncertain: set[str] = field(default_factory=set)
