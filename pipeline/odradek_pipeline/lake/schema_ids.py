"""The schemas that a topic's records name, and the columns' types that came of them: what is known at each batch.

Kept beside the checkpoint, a file for each batch that brought something new, written before the batch is. So a batch
that is repeated after a crash finds what it found the first time, whatever the registry has since: an id that was
unknown to it stays so in that batch, and its records go where they went.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import types as T

from odradek_pipeline.files import Files, join
from odradek_pipeline.registry import RegisteredSchema

FOLDER = "schemas"
UNKNOWN = "unknown"
ONLY = "only"
"""The name of the schema that all records have which do not name one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A schema by the name that records have for it; `problem`: why its records are dead letters.

    `is_unknown`: the registry did not have it, which holds for one batch.
    """

    schema: RegisteredSchema | None = None
    problem: str = ""
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """Of the values or the keys: the entries by name, and the column's type; None before the first schema."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    column: T.DataType | None = None

    def with_entry(self, name: str, entry: Entry, column: T.DataType | None) -> Side:
        return Side({**self.entries, name: entry}, column)

    def lasting(self) -> Side:
        """Without what holds for one batch."""
        return replace(self, entries={name: entry for name, entry in self.entries.items() if not entry.is_unknown})


Sides = Mapping[str, Side]


class SchemaIds:
    """The files of a topic's checkpoint; batches of a generation (the topics that have had this name) count from 0."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = join(folder, FOLDER)

    def has(self, generation: int, batch: int) -> bool:
        return self._files.exists(self._path(generation, batch))

    def load(self, generation: int, batch: int) -> dict[str, Side]:
        """What was known when a batch was first written, and what came with it."""
        sides: dict[str, Side] = {}
        for each in range(generation + 1):
            for number in self._numbers(each):
                if each == generation and number > batch:
                    continue
                found = json.loads(self._files.read(self._path(each, number)))
                for name, told in found["sides"].items():
                    before = sides.get(name, Side()).lasting()
                    entries = {key: _entry(entry) for key, entry in told["entries"].items()}
                    sides[name] = Side({**before.entries, **entries}, _type_of(told["column"]))
        if not self.has(generation, batch):
            sides = {name: side.lasting() for name, side in sides.items()}
        return sides

    def save(self, generation: int, batch: int, before: Sides, now: Sides) -> None:
        """Keep what a batch brought. Raises FileExistsError if there is a file of it: another driver runs."""
        told = {}
        for name, side in now.items():
            known = before[name].entries if name in before else {}
            news = {key: asdict(entry) for key, entry in side.entries.items() if known.get(key) != entry}
            told[name] = {"entries": news, "column": None if side.column is None else _json_of(side.column)}
        self._files.create(self._path(generation, batch), json.dumps({"version": 1, "sides": told}))

    def _path(self, generation: int, batch: int) -> str:
        return join(self._folder, str(generation), str(batch))

    def _numbers(self, generation: int) -> list[int]:
        names = self._files.names(join(self._folder, str(generation)))
        return sorted(int(name) for name in names if name.isdigit())


def _entry(told: dict[str, Any]) -> Entry:
    schema = told.pop("schema")
    return Entry(None if schema is None else RegisteredSchema(**schema), **told)


def _json_of(kind: T.DataType) -> Any:
    return T.StructType([T.StructField("column", kind)]).jsonValue()


def _type_of(told: Any) -> T.DataType | None:
    return None if told is None else T.StructType.fromJson(told).fields[0].dataType
