"""Converts the starts and ends given in the options to offsets."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from odradek_pipeline.datasource import walk
from odradek_pipeline.datasource.errors import CorruptLogError, DataLossError, DataSourceError
from odradek_pipeline.datasource.indexes import read_time_index, start_of
from odradek_pipeline.datasource.log_view import LogState
from odradek_pipeline.datasource.options import EARLIEST, LATEST, Offsets, SourceOptions
from odradek_pipeline.datasource.places import OpenLog, open_log
from odradek_pipeline.datasource.segments import Segment
from odradek_pipeline.protocol.records.build import iter_records
from odradek_pipeline.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of a log as it was when planned."""

    state: LogState
    start: int
    end: int


def batch_ranges(states: Mapping[TopicPartition, LogState], options: SourceOptions) -> list[OffsetRange]:
    """Return the ranges that a batch query reads; by default everything.

    Raises DataSourceError for a named partition that does not exist, DataLossError, CorruptLogError, OSError.
    """
    starting = EARLIEST if options.starting_offsets is None else options.starting_offsets
    for wanted in (starting, options.ending_offsets):
        _check_there(states, wanted)
    ranges = []
    for state in states.values():
        start = _resolve(state, starting, options.starting_timestamp, EARLIEST, options)
        end = _resolve(state, options.ending_offsets, options.ending_timestamp, LATEST, options)
        if start < end:
            ranges.append(OffsetRange(state, start, end))
    return ranges


def _check_there(states: Mapping[TopicPartition, LogState], wanted: int | Offsets) -> None:
    if not isinstance(wanted, int):
        named = {TopicPartition(topic, number) for topic, by in wanted.items() for number in by}
        if missing := sorted(named - set(states)):
            raise DataSourceError(
                f"Offsets are given for {', '.join(map(str, missing))}, which is not there or not read."
            )


def stream_start(state: LogState, options: SourceOptions) -> int:
    """Where a new stream begins; by default at the end. Raises DataLossError, CorruptLogError, OSError."""
    starting = LATEST if options.starting_offsets is None else options.starting_offsets
    return _resolve(state, starting, options.starting_timestamp, EARLIEST, options)


def _resolve(
    state: LogState, wanted: int | Offsets, timestamp: int | None, default: int, options: SourceOptions
) -> int:
    """Resolve to offsets; `default` applies to partitions that `wanted` does not name."""
    if timestamp is not None:
        return offset_for_timestamp(state, timestamp)
    topic, number = state.home.partition
    offset = wanted if isinstance(wanted, int) else wanted.get(topic, {}).get(number, default)
    if offset == EARLIEST:
        return state.start
    if offset == LATEST:
        return state.end
    return within(state, offset, options)


def within(state: LogState, offset: int, options: SourceOptions) -> int:
    """The requested offset, or the nearest one that exists. Raises DataLossError with `failOnDataLoss`."""
    if state.start <= offset <= state.end:
        return offset
    text = f"Offset {offset} of {state.home.partition} is asked for, and there are {state.start} up to {state.end}."
    if options.fail_on_data_loss:
        raise DataLossError(f"{text} With failOnDataLoss=false the read goes on with what there is.")
    logger.warning("offset out of range: %s", text)
    return min(max(offset, state.start), state.end)


def offset_for_timestamp(state: LogState, timestamp: int) -> int:
    """Offset of the first record at or after a time in milliseconds; the end if there is none.

    The rule is UnifiedLog.searchOffsetInLocalLog's. Raises OSError, CorruptLogError.
    """
    segments = state.listing.segments
    for segment in segments:
        with open_log(segment.log) as log:
            times = read_time_index(segment)
            last, known = times.last, times.floor(timestamp)
            if segment is not segments[-1] and last is not None and last[0] < timestamp and _is_so(log, segment, last):
                continue
            offset = known[1] if known is not None and _is_so(log, segment, known) else 0
            found = _first_at_or_after(state, segment, log, offset, timestamp)
        if found is not None:
            return found
    return state.end


def _is_so(log: OpenLog, segment: Segment, entry: tuple[int, int]) -> bool:
    """Whether the batch at a time index's entry has its time: the index has no checksum, and could hide records."""
    timestamp, offset = entry
    for _, header in walk.headers(log, start_of(log, segment, offset)):
        if header.next_offset > offset:
            return header.max_timestamp == timestamp
    return False


def _first_at_or_after(state: LogState, segment: Segment, log: OpenLog, from_offset: int, timestamp: int) -> int | None:
    start = start_of(log, segment, max(from_offset, state.start))
    for position, header in walk.headers(log, start):
        if header.base_offset >= state.end:
            return state.end
        if header.max_timestamp < timestamp or header.next_offset <= state.start:
            continue
        try:
            for record in iter_records(log.read(header.size, position), header):
                if record.timestamp >= timestamp and record.offset >= state.start:
                    return min(record.offset, state.end)
        except ValueError as error:
            raise CorruptLogError(f"{log.path}: the batch at offset {header.base_offset}: {error}") from error
    return None
