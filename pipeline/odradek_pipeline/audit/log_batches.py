"""The whole batches of a log file in their order, and what lies between them: damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from odradek_pipeline.datasource import walk
from odradek_pipeline.datasource.places import OpenLog, ScannedLog
from odradek_pipeline.protocol.records.batch import BatchHeader, check_crc

NO_END = 1 << 63


@dataclass(slots=True)
class Place:
    """A batch, and the file and position where it is."""

    header: BatchHeader
    log: OpenLog
    position: int

    def read(self) -> bytes:
        return self.log.read(self.header.size, self.position)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no good batch, behind the offsets below `offset`. `kind` is crc, batch, offset or torn."""

    kind: str
    offset: int
    text: str


def batches_in(log: OpenLog, least: int, before: int = NO_END) -> Iterator[Place | Damage]:
    """The batches of a file, each with the right CRC. Their offsets rise, from `least` on, and are below `before`.

    Raises DataSourceError, OSError.
    """
    log, position = ScannedLog(log), 0
    while position < log.size:
        for at, header in walk.headers(log, position, least):
            if not check_crc(log.read(header.size, at), 0, header) or _overtakes(log, at, header, least, before):
                break
            yield Place(header, log, at)
            position, least = at + header.size, header.next_offset
        if position >= log.size:
            return
        going_on = walk.next_whole(log, position + 1, least)
        yield _damage(log, position, least, going_on == log.size)
        position = going_on


def _overtakes(log: OpenLog, position: int, header: BatchHeader, least: int, before: int) -> bool:
    """Whether a batch leaves a gap, and what follows it has lower offsets: no CRC covers its offset, which is wrong."""
    if header.next_offset > before:
        return True
    if header.base_offset == least:
        return False
    following = walk.header_at(log, position + header.size, 0)
    return following is not None and least <= following.base_offset < header.next_offset


def _damage(log: OpenLog, position: int, least: int, nothing_follows: bool) -> Damage:
    damaged = walk.header_at(log, position, 0)
    if damaged is None and nothing_follows:
        return Damage("torn", least, f"{log.path}: at {position} is no whole batch, and nothing follows")
    kind, why = "batch", "it is no whole batch"
    if damaged is not None and damaged.base_offset >= least:
        whole = check_crc(log.read(damaged.size, position), 0, damaged)
        kind, why = ("offset", "its offset is out of order") if whole else ("crc", "its CRC is wrong")
    return Damage(kind, least, f"{log.path}: the batch at position {position}: {why}")
