"""The settings of a `lake` job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek_pipeline.files import join
from odradek_pipeline.kafka import ClusterAddress
from odradek_pipeline.lake import naming
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.partitioning import Partitioning
from odradek_pipeline.lake.schemas import EVERY_TOPIC, SchemaSpec, spec_of
from odradek_pipeline.s3 import is_s3
from odradek_pipeline.schemas.registry_specs import KEY, VALUE, RegisteredSpec
from odradek_pipeline.session import ICEBERG_CATALOG

DELTA = "delta"
ICEBERG = "iceberg"
PARQUET = "parquet"
COLUMN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OWN_COLUMNS = (
    *("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "headers", "value", "date", "reason"),
    *("schema_id", "key_schema_id", "deleted_at"),
)


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """`topics`, or else `pattern` (a Python regular expression for the whole name). Times are seconds.

    `catalog` None: tables are folders of `path`; else they are tables of that Iceberg catalog. `checkpoints` None:
    inside `path`. `max_offsets` limits a batch of one topic. `optimize_every` counts batches; 0 means never.
    `attempts` are consecutive tries without a batch between them. `registry`: its URLs, with commas. `upsert`: topics
    whose tables have one row a key; with `upsert_compacted` also those that the broker compacts. `group` None: the one
    named after the lake; empty: none. `unknown_fields`: the column for JSON fields that the schema does not name, which
    are left out if it is empty. `infer_again`: inferred schemas get the fields that the newest records have, at each
    start.
    """

    cluster: ClusterAddress
    path: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    table_format: str = DELTA
    catalog: str | None = None
    checkpoints: str | None = None
    specs: Mapping[str, SchemaSpec] = field(default_factory=dict)
    key_specs: Mapping[str, SchemaSpec] = field(default_factory=dict)
    registry: str = ""
    registry_config: Mapping[str, str] = field(default_factory=dict)
    available_now: bool = False
    interval: float = 10.0
    starting: str = "earliest"
    max_offsets: int = 1_000_000
    min_partitions: int | None = None
    allow_data_loss: bool = False
    follow_recreated: bool = False
    optimize_every: int = 0
    infer_records: int = 10_000
    parallel: int = 4
    attempts: int = 10
    discover_interval: float = 30.0
    upsert: tuple[str, ...] = ()
    upsert_compacted: bool = False
    tombstones_days: float = 7.0
    envelopes: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, Partitioning] = field(default_factory=dict)
    keep_snapshots: int = 100
    keep_days: float | None = None
    group: str | None = None
    unknown_fields: str = ""
    infer_again: bool = False

    def wants(self, topic: str) -> bool:
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.pattern, topic) is not None

    def registered(self, topic: str) -> dict[str, RegisteredSpec]:
        """What of a topic's records has schemas of a registry, or of a file in their place: `value`, `key` or both."""
        found = {VALUE: spec_of(self.specs, topic).registered, KEY: spec_of(self.key_specs, topic).registered}
        return {side: spec for side, spec in found.items() if spec is not None}

    def has_registered(self) -> bool:
        """Whether any topic's records have schemas of a registry, or of a file in their place."""
        return any(spec.registered is not None for spec in (*self.specs.values(), *self.key_specs.values()))

    def asks_registry(self) -> bool:
        specs = (*self.specs.values(), *self.key_specs.values())
        return any(spec.registered is not None and not spec.registered.file for spec in specs)

    def has_kind(self, kind: str) -> bool:
        """Whether any topic's records have schemas of a kind: AVRO, JSON or PROTOBUF."""
        specs = (*self.specs.values(), *self.key_specs.values())
        return any(spec.registered is not None and spec.registered.kind == kind for spec in specs)

    def check(self) -> None:
        """Raises LakeError for what is said of a topic that is not asked for, or does not go together."""
        named = {
            "--schema": self.specs,
            "--key-schema": self.key_specs,
            "--upsert": self.upsert,
            "--envelope": self.envelopes,
            "--partition-by": self.partitions,
        }
        for option, topics in named.items():
            for topic in topics:
                if topic != EVERY_TOPIC and not self.wants(topic):
                    raise LakeError(f"{option} is for topic {topic}, which is not asked for")
        if self.unknown_fields and COLUMN_NAME.fullmatch(self.unknown_fields) is None:
            raise LakeError(f"--unknown-fields {self.unknown_fields!r} is no column: letters, digits and _ alone")
        if self.unknown_fields.lower() in OWN_COLUMNS:
            raise LakeError(f"--unknown-fields {self.unknown_fields}: the tables have such a column already")
        if self.infer_again and self.table_format == PARQUET:
            raise LakeError("--infer-again: the schema of a Parquet table stays as it began")
        if is_s3(self.path) and self.table_format == ICEBERG and self.catalog is None:
            raise LakeError(
                "--format iceberg on S3 needs a --catalog (JDBC, REST, Glue): without one a commit is a rename, which "
                "S3 has not, and of two commits at once one would be lost"
            )
        for topic in self.envelopes:
            if not self.upsert_compacted and topic not in (*self.upsert, EVERY_TOPIC):
                raise LakeError(f"--envelope {topic}: changes of rows need a table of rows by key: --upsert {topic}")
            if spec_of(self.specs, topic).is_raw:
                raise LakeError(f"--envelope {topic}: it needs the schema of the row, such as --schema {topic}=json")

    def checkpoint(self, topic: str) -> str:
        return join(self.checkpoints or join(self.path, naming.CHECKPOINTS), naming.folder(topic))

    def table(self, topic: str) -> str:
        """The name of a topic's table: a path, or a name within the catalog."""
        return naming.identifier(topic) if self.catalog else self._place(naming.folder(topic))

    def dead_letters(self, topic: str) -> str:
        return naming.dead_letters_identifier(topic) if self.catalog else self._place(naming.dead_letters_folder(topic))

    def deleted_keys(self, topic: str) -> str:
        return naming.deleted_keys_identifier(topic) if self.catalog else self._place(naming.deleted_keys_folder(topic))

    def partitioning(self, topic: str) -> Partitioning | None:
        """How a topic's table is to be divided; None if that was not said."""
        return self.partitions.get(topic, self.partitions.get(EVERY_TOPIC))

    @property
    def is_on_s3(self) -> bool:
        """Whether tables or checkpoints are on S3."""
        return is_s3(self.path) or is_s3(self.checkpoints)

    def lease(self, topic: str) -> str:
        """Where on S3 the lease of a topic is."""
        folder = self.checkpoints if is_s3(self.checkpoints) else None
        return join(folder or join(self.path, naming.CHECKPOINTS), naming.LEASES, naming.folder(topic))

    @property
    def iceberg_catalog(self) -> str:
        return self.catalog or ICEBERG_CATALOG

    def _place(self, name: str) -> str:
        """Where a table is; our own Iceberg catalog is the folder itself, so a name is enough there."""
        return name if self.table_format == ICEBERG else join(self.path, name)
