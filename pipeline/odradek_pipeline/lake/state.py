"""The memory of a topic's run between starts, besides Spark's own checkpoint.

The state is in numbered files, each complete: the newest counts. Schemas are kept with the batch they begin at, so that
a batch repeated after a crash is read with the schema of its first try, and its records go where they went then.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any

from odradek_pipeline.files import Files, join
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.partitioning import DATE

FORMAT_VERSION = 1
FOLDER = "odradek"


@dataclass(frozen=True, slots=True)
class BatchSchema:
    """`schema` is a StructType's JSON; None means raw bytes. It applies from batch `from_batch` on."""

    from_batch: int
    schema: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class TopicState:
    """`id` names the run in the tables' own logs; `generation` counts the topics that have had this name.

    `partitioning`: how the table is divided; `upsert`: it has one row a key; `unknown_fields`: the column that it began
    with for fields that the schema does not name, empty without one.
    """

    id: str
    topic: str
    topic_id: str
    table_format: str
    generation: int
    schemas: tuple[BatchSchema, ...]
    partitioning: str = DATE
    upsert: bool = False
    unknown_fields: str = ""

    @property
    def run(self) -> str:
        """The name of this generation's writer in a table's log."""
        return f"odradek-lake-{self.id}-{self.generation}"

    def schema_of(self, batch: int) -> dict[str, Any] | None:
        return next(entry.schema for entry in reversed(self.schemas) if entry.from_batch <= batch)

    @property
    def newest_schema(self) -> dict[str, Any] | None:
        return self.schemas[-1].schema

    def with_schema(self, schema: dict[str, Any] | None, from_batch: int) -> TopicState:
        kept = tuple(entry for entry in self.schemas if entry.from_batch < from_batch)
        return replace(self, schemas=(*kept, BatchSchema(from_batch, schema)))

    def next_generation(self, topic_id: str, schema: dict[str, Any] | None) -> TopicState:
        """The state for a recreated topic: batches count from 0 again. Earlier schemas stay, for the table's rows."""
        earlier = (BatchSchema(-1, entry.schema) for entry in self.schemas)
        return replace(
            self, topic_id=topic_id, generation=self.generation + 1, schemas=(*earlier, BatchSchema(0, schema))
        )


def new_state(topic: str, topic_id: str, table_format: str, schema: dict[str, Any] | None) -> TopicState:
    return TopicState(uuid.uuid4().hex, topic, topic_id, table_format, 0, (BatchSchema(0, schema),))


class Checkpoint:
    """A topic's checkpoint folder: the files of the state, and a folder for each generation's Spark checkpoint."""

    def __init__(self, files: Files, folder: str) -> None:
        self.folder = folder
        self._files = files
        self._states = join(folder, FOLDER)

    def load(self) -> TopicState | None:
        """The newest state; None if there is none yet. Raises LakeError if its format is newer."""
        numbers = self._numbers(self._states)
        if not numbers:
            return None
        fields = json.loads(self._files.read(join(self._states, str(max(numbers)))))
        if fields.pop("version") != FORMAT_VERSION:
            raise LakeError(f"{self._states} was written by a newer odradek-pipeline")
        schemas = tuple(BatchSchema(**entry) for entry in fields.pop("schemas"))
        return TopicState(schemas=schemas, **fields)

    def save(self, state: TopicState) -> None:
        number = max(self._numbers(self._states), default=-1) + 1
        self._files.create(join(self._states, str(number)), json.dumps({"version": FORMAT_VERSION} | asdict(state)))

    def spark_folder(self, state: TopicState, part: str = "records") -> str:
        return join(self.folder, part, str(state.generation))

    def last_planned(self, state: TopicState) -> int:
        """The newest batch whose offsets are settled; -1 if there is none yet."""
        return max(self._numbers(join(self.spark_folder(state), "offsets")), default=-1)

    def last_committed(self, state: TopicState) -> int:
        """The newest batch that is known to be in the tables; -1 if there is none yet."""
        return max(self._numbers(join(self.spark_folder(state), "commits")), default=-1)

    def next_offsets(self, state: TopicState, part: str) -> dict[str, dict[int, int]]:
        """By topic and partition, from where on a query has still to read; empty if that is not settled yet."""
        folder = self.spark_folder(state, part)
        newest = max(self._numbers(join(folder, "commits")), default=-1)
        if newest < 0:
            return self.first_offsets(state, part)
        return self._offsets(join(folder, "offsets", str(newest)))

    def first_offsets(self, state: TopicState, part: str) -> dict[str, dict[int, int]]:
        """By topic and partition, where a query began; empty if that is not settled yet."""
        return self._offsets(join(self.spark_folder(state, part), "sources", "0", "0"))

    def _offsets(self, path: str) -> dict[str, dict[int, int]]:
        """The offsets in a file of Spark's checkpoint."""
        if not self._files.exists(path):
            return {}
        last_line = self._files.read(path).rstrip().rsplit("\n", 1)[-1]  # before it are a version and other things
        found = json.loads(last_line[last_line.index("{") :])
        return {topic: {int(key): offset for key, offset in by.items()} for topic, by in found.items()}

    def _numbers(self, folder: str) -> list[int]:
        return [int(name) for name in self._files.names(folder) if name.isdigit()]
