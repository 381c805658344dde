"""What the commands are given for topics and tables, as sides of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click

from odradek_pipeline.audit.sides import Topic


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """Where a topic is: in `data` folders, or at the brokers of `bootstrap`, with librdkafka's settings in `config`."""

    topic: str
    data: Sequence[str] = ()
    bootstrap: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> Topic:
        """Raises AuditError."""
        if self.data:
            from odradek_pipeline.audit.folder_topic import FolderTopic

            return FolderTopic(self.data, self.topic)
        from odradek_pipeline.audit.broker_topic import BrokerTopic

        return BrokerTopic(self.bootstrap or "", self.topic, self.config)

    def __str__(self) -> str:
        return f"{self.topic} in {', '.join(self.data)}" if self.data else f"{self.topic} at {self.bootstrap}"


def check_place(data: Sequence[str], bootstrap: str | None, flags: tuple[str, str]) -> None:
    """Raises UsageError unless one of the two is given."""
    if bool(data) == bool(bootstrap):
        raise click.UsageError(f"give either {flags[0]} or {flags[1]}")
