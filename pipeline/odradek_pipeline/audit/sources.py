"""What the commands are given for topics and tables, as sides of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import click

from odradek_pipeline.audit.groups import OFFSETS_TOPIC
from odradek_pipeline.audit.sides import NotThereError, Topic

if TYPE_CHECKING:
    from odradek_pipeline.audit.opened import OpenTable


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """Where a topic is: in `data` folders, or at the brokers of `bootstrap`, with librdkafka's settings in `config`.

    `tier` are options of the data source that say where older segments are, beside the folders or alone.
    """

    topic: str
    data: Sequence[str] = ()
    bootstrap: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    tier: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> Topic:
        """Raises AuditError."""
        if self.data or self.tier:
            from odradek_pipeline.audit.folder_topic import FolderTopic

            return FolderTopic(self.data, self.topic, self.tier)
        from odradek_pipeline.audit.broker_topic import BrokerTopic

        return BrokerTopic(self.bootstrap or "", self.topic, self.config)

    def offsets(self) -> Topic | None:
        """The topic with the offsets of groups; None if none has ever committed. Raises AuditError."""
        try:
            return replace(self, topic=OFFSETS_TOPIC).open()
        except NotThereError:
            return None

    def __str__(self) -> str:
        folders = [*self.data, *([self.tier["tier"]] if self.tier else [])]
        return f"{self.topic} in {', '.join(folders)}" if folders else f"{self.topic} at {self.bootstrap}"


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table: that of a topic in `lake`, or the one at `table`. `names` are its columns by Kafka's names for them."""

    lake: str | None
    table: str | None
    dead_letters: str | None = None
    table_format: str | None = None
    version: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    checkpoints: str | None = None

    @classmethod
    def given(cls, options: Mapping[str, Any]) -> TablePlace:
        """From a command's options (`options.table_options`)."""
        return cls(**{part.name: options[part.name] for part in fields(cls)})

    def newest_batch(self, topic: str) -> Mapping[int, int] | None:
        """Of a lake, by partition the end of the newest committed batch. Raises AuditError for rows by key."""
        from odradek_pipeline.audit.lakes import newest_batch

        return None if self.lake is None else newest_batch(self.lake, topic, self.checkpoints)

    def open(self, topic: str) -> tuple[OpenTable, OpenTable | None]:
        """The table, and its dead letters if there are any. Raises AuditError."""
        from odradek_pipeline.audit.lakes import tables_of
        from odradek_pipeline.audit.opened import OpenTable, format_of

        if self.lake is not None:
            return tables_of(self.lake, topic, self.table_format, self.names)
        assert self.table is not None, "the command has checked it"
        iceberg_name = "/" not in self.table and ":" in self.table
        found = self.table_format or ("iceberg" if iceberg_name else format_of(self.table))
        table = OpenTable(self.table, found, self.names, self.version)
        if not self.dead_letters:
            return table, None
        return table, OpenTable(self.dead_letters, self.table_format or format_of(self.dead_letters), self.names)


def place_of(
    topic: str,
    data: Sequence[str],
    bootstrap: str | None,
    tier: tuple[str | None, Mapping[str, str]],
    config: Mapping[str, str],
    prefix: str = "--",
) -> TopicPlace:
    """The place that options say, whose names begin with `prefix`. Raises UsageError unless it is one."""
    if bool(data or tier[0]) == bool(bootstrap):
        raise click.UsageError(f"give either {prefix}data (or {prefix}tier) or {prefix}bootstrap")
    options = {} if tier[0] is None else {**tier[1], "tier": tier[0]}
    return TopicPlace(topic, data, bootstrap, config, options)
