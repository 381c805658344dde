"""`spark.readStream.format("odradek")`: offsets by topic and partition, from one micro-batch to the next."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from odradek_pipeline.datasource.errors import DataLossError, DataSourceError
from odradek_pipeline.datasource.log_view import LogState, Planner
from odradek_pipeline.datasource.offsets import OffsetRange, stream_start, within
from odradek_pipeline.datasource.options import LATEST, HighWatermark, SourceOptions
from odradek_pipeline.datasource.reader import read_split
from odradek_pipeline.datasource.splits import Split, splits_of
from odradek_pipeline.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class OdradekStreamReader(DataSourceStreamReader):
    """Spark keeps one for the whole query in a process beside the driver, and makes others for the tasks.

    An offset is `{"offsets": {topic: {partition: offset}}, "ids": {topic: id}}`; the id distinguishes a topic from a
    recreated one of the same name.
    """

    def __init__(self, options: SourceOptions, names: Sequence[str]) -> None:
        """Raises DataSourceError if an ending offset is given, which a stream cannot have."""
        if options.ending_offsets != LATEST or options.ending_timestamp is not None:
            raise DataSourceError("A stream has no end: endingOffsets and endingTimestamp are for batch queries.")
        self.options = options
        self.names = tuple(names)
        self._planner = Planner(options)
        self._initial: StreamPosition | None = None
        self._position: StreamPosition | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins, by default at the logs' ends."""
        return self._begin(self._planner.look()).to_json()

    def _begin(self, states: Mapping[TopicPartition, LogState]) -> StreamPosition:
        """The offset of a new query; needed here because Spark asks for the latest offset before the initial one."""
        if self._initial is None:
            offsets = {key: stream_start(state, self.options) for key, state in states.items()}
            self._initial = StreamPosition(offsets, _ids(states))
        return self._initial

    def latestOffset(self) -> dict[str, Any]:
        """The logs' ends, or how far `maxOffsetsPerTrigger` lets the next micro-batch go. Raises DataLossError."""
        states = self._planner.look()
        begin = self._position or self._begin(states)
        starts = {key: offset for key, offset in begin.offsets.items() if not self._is_recreated(key, begin, states)}
        ends = dict(starts)  # also for folders that are gone: `partitions` reports those
        for key, state in states.items():
            starts[key] = self._not_cut(state, starts.get(key, state.start))
            ends[key] = max(state.end, starts[key])
        return StreamPosition(self._limited(starts, ends), begin.ids | _ids(states)).to_json()

    def _is_recreated(
        self, key: TopicPartition, begin: StreamPosition, states: Mapping[TopicPartition, LogState]
    ) -> bool:
        """Whether the topic was recreated. Raises DataLossError with `failOnDataLoss`."""
        state = states.get(key)
        known = begin.ids.get(key.topic)
        if state is None or known is None or known == state.topic_id:
            return False
        self._lost(f"Topic {key.topic} was deleted and recreated; what was not read of {key} before is gone.")
        return True

    def _not_cut(self, state: LogState, offset: int) -> int:
        """Where to go on: at `offset`, or at the end of a log that was cut below it. Raises DataLossError."""
        log_end = state.tail.end
        if self.options.high_watermark is not HighWatermark.WRITTEN or offset <= log_end:
            return offset  # a checkpoint lags, and may be behind what was read regardless of it
        self._lost(f"The log of {state.home.partition} was read up to offset {offset} and ends at {log_end} now.")
        return state.end

    def _limited(
        self, starts: Mapping[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        limit = self.options.max_offsets_per_trigger
        total = sum(end - starts[key] for key, end in ends.items())
        if limit is None or total <= limit:
            return ends
        return {key: starts[key] - (-limit * (end - starts[key]) // total) for key, end in ends.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The splits of a micro-batch; Spark passes the last offset twice after a restart. Raises DataLossError."""
        begin, self._position = StreamPosition.of_json(start), StreamPosition.of_json(end)
        if start == end:
            return []
        end_position = self._position
        return list(
            splits_of(self._planner.look, lambda states: self._ranges(states, begin, end_position), self.options)
        )

    def _ranges(
        self, states: Mapping[TopicPartition, LogState], begin: StreamPosition, end: StreamPosition
    ) -> list[OffsetRange]:
        ranges = []
        for key, to_offset in sorted(end.offsets.items()):
            state = states.get(key)
            from_offset = begin.offsets.get(key, -1)
            if begin.ids.get(key.topic) != end.ids.get(key.topic):
                from_offset = -1
            if from_offset >= to_offset:
                continue
            if state is None or state.topic_id != end.ids.get(key.topic):
                self._lost(f"The log of {key} is gone, and with it offsets up to {to_offset - 1}.")
                continue
            first = state.start if from_offset < 0 else within(state, from_offset, self.options)
            last = within(state, to_offset, self.options)
            if first < last:
                ranges.append(OffsetRange(state, first, last))
        return ranges

    def _lost(self, text: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLossError(f"{text} With failOnDataLoss=false the stream goes on.")
        logger.warning("records are gone: %s", text)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a split, in a Spark task."""
        if not isinstance(partition, Split):
            return iter(())
        return read_split(partition, self.options, self.names)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that the sink has everything up to `end`."""
        self._planner.forget(StreamPosition.of_json(end).offsets)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a stream has come: the next offset of each partition, and the ids of the topics that have one."""

    offsets: dict[TopicPartition, int]
    ids: dict[str, str]

    @classmethod
    def of_json(cls, saved: Mapping[str, Any]) -> StreamPosition:
        """Raises DataSourceError for an offset of another source."""
        if saved.keys() != {"offsets", "ids"}:
            raise DataSourceError("The checkpoint is of a stream from another source: give the query one of its own.")
        offsets = {
            TopicPartition(topic, int(number)): offset
            for topic, by in saved["offsets"].items()
            for number, offset in by.items()
        }
        return cls(offsets, dict(saved["ids"]))

    def to_json(self) -> dict[str, Any]:
        """The offset as JSON, always in the same order: to Spark, different text is a different offset."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, number), offset in sorted(self.offsets.items()):
            offsets.setdefault(topic, {})[str(number)] = offset
        return {"offsets": offsets, "ids": dict(sorted(self.ids.items()))}


def _ids(states: Mapping[TopicPartition, LogState]) -> dict[str, str]:
    return {key.topic: state.topic_id for key, state in states.items() if state.topic_id is not None}
