"""All wanted partitions at one moment."""

from __future__ import annotations

from collections.abc import Mapping

from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.folders import Home, find_homes
from odradek_pipeline.datasource.log_view import Checkpoints, LogState, LogView
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.protocol.topic_partition import TopicPartition


class Planner:
    """Remembers what it has walked over, so that a stream's next look is cheap."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._views: dict[TopicPartition, LogView] = {}

    def look(self) -> dict[TopicPartition, LogState]:
        """The logs of the wanted partitions. Raises DataSourceError or a subclass, OSError."""
        gone: set[Home] = set()
        while True:
            homes = find_homes(self._options.paths, lambda one: self._options.wants(*one))
            checkpoints = {root: Checkpoints.read(root) for root in self._options.paths}
            states = {}
            for home in homes:
                view = self._views.setdefault(home.partition, LogView(self._options))
                state = view.look(home, checkpoints[home.root])
                if state is not None:
                    states[home.partition] = state
            missed = {home for home in homes if home.partition not in states}
            if missed <= gone:
                return states
            gone = missed  # the partition was deleted or moved, or is being created

    def check_topics(self, states: Mapping[TopicPartition, LogState]) -> None:
        """Raises DataSourceError if a named topic does not exist."""
        missing = (self._options.topics or frozenset()) - {partition.topic for partition in states}
        if missing:
            raise DataSourceError(
                f"No partition of {', '.join(sorted(missing))} is in {', '.join(self._options.paths)}."
            )

    def forget(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Forget what is only needed to read records before these offsets."""
        for partition, offset in offsets.items():
            if partition in self._views:
                self._views[partition].forget(offset)
