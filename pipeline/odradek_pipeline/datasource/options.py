"""The options of the source, which Spark passes as text and without regard to case."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from odradek_pipeline.datasource.columns import COLUMNS
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.tiers import Tier, tier_of

EARLIEST = -2
LATEST = -1
Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition; -2 is the log's start and -1 its end, as in the Kafka connector."""


class Isolation(Enum):
    """Kafka's `isolation.level`."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class TierMetadata(Enum):
    """Where it is written what is in remote storage: `__remote_log_metadata` in the data folders, the store itself.

    AUTO: in the topic if it is in the folders.
    """

    AUTO = "auto"
    TOPIC = "topic"
    LISTING = "listing"


class HighWatermark(Enum):
    """The end of a log for readers: every whole batch in the files, or the broker's own checkpoint of it."""

    WRITTEN = "written"
    CHECKPOINTED = "checkpointed"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The topics to read, and how. Sizes are bytes, timestamps milliseconds since 1970.

    `tier`: where older segments are, if not in the folders of `paths` alone; without any folder: where all is.

    `topics` None: by `topics_pattern`, or else all but the internal ones. `partitions` None: all of them. Starts and
    ends are EARLIEST, LATEST or `Offsets`, None if the option was not given; a timestamp, if given, takes precedence.
    """

    paths: tuple[str, ...]
    topics: frozenset[str] | None = None
    topics_pattern: str | None = None
    partitions: frozenset[int] | None = None
    isolation: Isolation = Isolation.READ_COMMITTED
    high_watermark: HighWatermark = HighWatermark.WRITTEN
    starting_offsets: int | Offsets | None = None
    ending_offsets: int | Offsets = LATEST
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    max_offsets_per_trigger: int | None = None
    split_bytes: int = 64 << 20
    min_partitions: int = 1
    batch_bytes: int = 4 << 20
    fail_on_data_loss: bool = True
    fail_on_corruption: bool = True
    filter_pushdown: bool = False
    columns: tuple[str, ...] = tuple(COLUMNS)
    tier: Tier | None = None
    tier_metadata: TierMetadata = TierMetadata.AUTO

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        """Raises DataSourceError, which names the option, for what cannot be understood."""
        options = {name.lower(): value for name, value in given.items()}
        unknown = set(options) - set(_PARSERS)
        if unknown:
            known = ", ".join(name for name, _ in _OPTIONS)
            raise DataSourceError(f"Unknown option {', '.join(sorted(unknown))}; there are {known}.")
        if not (options.get("path") or options.get("paths") or options.get("tier")):
            raise DataSourceError("Option path is missing: the broker's log.dirs, or copies of them.")
        if "topics" in options and "topicspattern" in options:
            raise DataSourceError("Give either topics or topicsPattern.")
        values: dict[str, Any] = {}
        for name, text in options.items():
            attribute, parse = _PARSERS[name]
            try:
                values[attribute] = parse(text)
            except (ValueError, TypeError, AttributeError, re.error) as error:
                raise DataSourceError(f"Option {name} cannot be {text!r}: {error}") from error
        bucket = {name: values.pop(name, None) for name in _BUCKET}
        if values.get("tier") is not None:
            values["tier"] = tier_of(values["tier"], **bucket)
        elif any(bucket.values()):
            raise DataSourceError("Options s3Endpoint, s3Region, s3AccessKey and s3SecretKey are for a tier on S3.")
        return cls(**{"paths": (), **values})

    def wants(self, topic: str, partition: int) -> bool:
        """Whether a partition is wanted. Those of internal topics are only if named or matched by a pattern."""
        if self.partitions is not None and partition not in self.partitions:
            return False
        if self.topics is not None:
            return topic in self.topics
        if self.topics_pattern is None:
            return not topic.startswith("__")
        return re.fullmatch(self.topics_pattern, topic) is not None


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("it is empty")
    return names


def _columns(text: str) -> tuple[str, ...]:
    names = _names(text)
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"there is no column {name}")
    return names


def _pattern(text: str) -> str:
    return re.compile(text).pattern


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return text.lower() == "true"


def _positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError("it is not positive")
    return int(text)


def _offsets(text: str) -> int | Offsets:
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    found = json.loads(text)
    return {topic: {int(number): int(offset) for number, offset in by.items()} for topic, by in found.items()}


_OPTIONS: tuple[tuple[str, tuple[str, Callable[[str], Any]]], ...] = (
    ("path", ("paths", _names)),
    ("paths", ("paths", lambda text: tuple(json.loads(text)))),  # what Spark makes of `load([...])`
    ("topics", ("topics", lambda text: frozenset(_names(text)))),
    ("topicsPattern", ("topics_pattern", _pattern)),
    ("partitions", ("partitions", lambda text: frozenset(int(name) for name in _names(text)))),
    ("isolationLevel", ("isolation", lambda text: Isolation(text.lower()))),
    ("highWatermark", ("high_watermark", lambda text: HighWatermark(text.lower()))),
    ("startingOffsets", ("starting_offsets", _offsets)),
    ("endingOffsets", ("ending_offsets", _offsets)),
    ("startingTimestamp", ("starting_timestamp", int)),
    ("endingTimestamp", ("ending_timestamp", int)),
    ("maxOffsetsPerTrigger", ("max_offsets_per_trigger", _positive)),
    ("splitBytes", ("split_bytes", _positive)),
    ("minPartitions", ("min_partitions", _positive)),
    ("batchBytes", ("batch_bytes", _positive)),
    ("failOnDataLoss", ("fail_on_data_loss", _bool)),
    ("failOnCorruption", ("fail_on_corruption", _bool)),
    ("filterPushdown", ("filter_pushdown", _bool)),
    ("columns", ("columns", _columns)),
    ("tier", ("tier", str)),
    ("tierMetadata", ("tier_metadata", lambda text: TierMetadata(text.lower()))),
    ("s3Endpoint", ("endpoint", str)),
    ("s3Region", ("region", str)),
    ("s3AccessKey", ("access_key", str)),
    ("s3SecretKey", ("secret_key", str)),
)
_BUCKET = ("endpoint", "region", "access_key", "secret_key")
_PARSERS = {name.lower(): target for name, target in _OPTIONS}
