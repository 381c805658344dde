"""What must hold in a simulated cluster: at each step, and when all is well again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from broker.replication.partition import Partition, Role
from protocol.records.batch import read_header
from protocol.records.build import ControlRecordType, iter_records, read_control_batch
from storage.log.segment_recovery import whole_batches
from storage.segments.txn_index import collect_aborted
from tests.simulation.controller import TOPIC

if TYPE_CHECKING:
    from tests.simulation.controller import Controller
    from tests.simulation.node import SimulatedNode

Place = tuple[int, int]
"""(partition, offset)"""


class Invariants:
    """Nothing that was acknowledged is lost, and what was once readable never changes.

    No leader epoch has two leaders, no high watermark moves back while a node runs, and in the end all replicas are the
    same: records, leader epochs, producers.

    Attributes:
        acknowledged: the value at each place that a producer was told.
        seen: leader epoch and value at each place that some replica had below its high watermark.
        may_lose: after unclean elections all this need not hold, only that the replicas are the same in the end.
    """

    def __init__(self, nodes: Mapping[int, SimulatedNode], controller: Controller, *, may_lose: bool = False) -> None:
        self.may_lose = may_lose
        self.acknowledged: dict[Place, bytes] = {}
        self.seen: dict[Place, tuple[int, bytes]] = {}
        self._nodes = nodes
        self._controller = controller
        self._watermarks: dict[tuple[int, int], tuple[int, Partition]] = {}

    def check(self) -> None:
        leaders: dict[tuple[int, int], int] = {}
        for node in self._nodes.values():
            if not node.is_serving:
                continue
            for partition in node.replicas:
                assert not partition.log.is_offline, f"{node.id} {partition.log.name} is offline"
                self._check_partition(node, partition)
                if partition.role is Role.LEADER:
                    term = (partition.index, partition.leader_epoch)
                    assert leaders.setdefault(term, node.id) == node.id, f"two leaders of {term}"

    def _check_partition(self, node: SimulatedNode, partition: Partition) -> None:
        key = (node.id, partition.index)
        known, before = self._watermarks.get(key, (0, partition))
        assert self.may_lose or before is not partition or partition.high_watermark >= known, (
            f"high watermark of {key} moved back"
        )
        self._watermarks[key] = partition.high_watermark, partition
        assert partition.log_start_offset <= partition.high_watermark <= partition.log_end_offset
        if self.may_lose:
            return
        start = known if before is partition else 0
        for offset, epoch, value in records(partition, start, partition.high_watermark):
            place, found = (partition.index, offset), (epoch, value)
            seen = self.seen.setdefault(place, found)
            assert seen == found, f"{place} is {found} on {node.id}, and was {seen}"

    def check_end(self) -> None:
        for index, state in self._controller.partitions:
            self._check_end(index, [self._nodes[node].replicas.find(TOPIC, index) for node in state.replicas])
            for node in self._nodes.values():
                assert (node.replicas.get(TOPIC, index) is not None) == (node.id in state.replicas)

    def _check_end(self, index: int, logs: list[Partition]) -> None:
        logs.sort(key=lambda one: one.role is not Role.LEADER)
        leader = logs[0]
        ends = {(one.log_end_offset, one.high_watermark) for one in logs}
        assert len(ends) == 1, f"partition {index}: {ends}"
        assert leader.high_watermark == leader.log_end_offset
        # A power failure may take back that records were deleted, but not leader epochs that went with them.
        start = max(one.log_start_offset for one in logs)
        contents = [list(batches(one, start)) for one in logs]
        assert all(one == contents[0] for one in contents), f"the replicas of {index} differ: " + "; ".join(
            str([(header.base_offset, header.last_offset, header.leader_epoch) for header in map(read_header, one)])
            for one in contents
        )
        first_epochs = [entry.start_offset for one in logs for entry in one.log.leader_epochs.entries[:1]]
        epochs = {epochs_from(one, max(start, *first_epochs)) for one in logs}
        assert len(epochs) == 1, f"partition {index}: {epochs}"
        producers = {producers_of(one, start) for one in logs}
        assert len(producers) == 1, f"partition {index}: {producers}"
        if self.may_lose:
            return
        aborted = [aborted_from(one, start) for one in logs]
        assert all(one == aborted[0] for one in aborted), f"{index}: aborted {[one ^ aborted[0] for one in aborted]}"
        assert all(one.last_stable_offset == one.high_watermark for one in logs), "a transaction is still open"
        held = {offset: value for offset, _, value in records(leader, 0, leader.log_end_offset)}
        for (partition, offset), value in self.acknowledged.items():
            if partition == index and offset >= start:
                assert held.get(offset) == value, f"acknowledged {value!r} at {index}, {offset} is {held.get(offset)!r}"


def aborted_from(partition: Partition, start: int) -> set[int]:
    """The base offsets of the batches from `start` on that the indexes say are of aborted transactions."""
    found = collect_aborted([one.txn_index for one in partition.log.segments], start, partition.log_end_offset)
    return {
        header.base_offset
        for header in map(read_header, batches(partition, start))
        if header.is_transactional
        and not header.is_control
        and any(
            one.producer_id == header.producer_id and one.first_offset <= header.base_offset < one.last_offset
            for one in found
        )
    }


def committed_by(partition: Partition, producer_id: int) -> list[bytes]:
    """The values of the producer's committed transactions that are still there, in order."""
    found: list[bytes] = []
    open_values: list[bytes] = []
    for batch in batches(partition):
        header = read_header(batch)
        if header.producer_id != producer_id:
            continue
        if header.is_control:
            control = read_control_batch(batch, header)
            assert control is not None
            assert control[0] is not None
            found += open_values if control[0].type is ControlRecordType.COMMIT else []
            open_values = []
        else:
            open_values += [record.value or b"" for record in iter_records(batch, header)]
    assert not open_values
    return found


def producers_of(partition: Partition, start: int) -> tuple[object, ...]:
    """What is known of the producers whose last batch is still there."""
    known = sorted(one.saved() for one in partition.log.producers.producers.values())
    return tuple(
        (one.producer_id, one.producer_epoch, one.last_sequence, one.last_offset)
        for one in known
        if one.last_offset >= start
    )


def epochs_from(partition: Partition, start: int) -> tuple[tuple[int, int], ...]:
    """The leader epochs that have records from `start` on, and where they begin there."""
    entries = partition.log.leader_epochs.entries
    ends = [entry.start_offset for entry in entries[1:]] + [partition.log_end_offset]
    return tuple(
        (entry.epoch, max(start, entry.start_offset))
        for entry, end in zip(entries, ends, strict=False)
        if max(start, entry.start_offset) < end
    )


def batches(partition: Partition, start: int = 0) -> Iterator[bytes]:
    """The batches of a log from the one that holds `start` on, byte for byte, without a turn of the loop."""
    log = partition.log
    start = max(start, log.log_start_offset)
    for segment in log.segments.from_offset(start):
        for _, header, batch in whole_batches(segment.file.open(), 0, segment.size):
            if header.last_offset >= start:
                yield bytes(batch)


def records(partition: Partition, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """(offset, leader epoch, value) of the records from `start` up to `end`."""
    start = max(start, partition.log_start_offset)
    for batch in batches(partition, start):
        header = read_header(batch)
        for record in iter_records(batch, header):
            if start <= record.offset < end:
                yield record.offset, header.leader_epoch, record.value or b""
        if header.next_offset >= end:
            return
