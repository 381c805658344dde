"""A schema registry, asked by the driver. What does not answer (RegistryAway) is told apart from a no (SchemaError).

A registry that is away comes back: whoever asks waits and asks again. An answer that says no is one, and is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import click

from odradek_pipeline.schemas import lookup
from odradek_pipeline.schemas.client import RegistryClient, RegistryRefused
from odradek_pipeline.schemas.errors import SchemaError
from odradek_pipeline.schemas.rest import subject_path

TIMEOUT_S = 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """`needed`: the texts that it refers to, by the name it has for each, in an order in which each is after its own.

    `id` None: the registry did not tell, or there is none, as for a file. `message`: of Protobuf, the one that values
    are; empty: the first.
    """

    kind: str
    text: str
    id: int | None = None
    needed: Mapping[str, str] = field(default_factory=dict)
    message: str = ""


class Registry:
    """`urls`: one or more, with commas; each is asked until one answers. Raises UsageError for bad settings.

    What asks raises RegistryAway if none answers now, and SchemaError if the registry says no.
    """

    def __init__(self, urls: str, settings: Mapping[str, str] | None = None) -> None:
        try:
            self._client = RegistryClient(urls, settings, TIMEOUT_S)
        except ValueError as error:
            raise click.UsageError(f"--registry, --registry-config: {error}") from error

    def by_id(self, schema_id: int, subject: str) -> RegisteredSchema | None:
        """The schema with an id, in the context of a subject; None if there is none."""
        source = self._run(lookup.by_name(schema_id, subject))
        return None if source is None else _registered(source, schema_id)

    def by_guid(self, guid: str) -> RegisteredSchema | None:
        source = self._run(lookup.by_name(guid))
        if source is None:
            return None
        ids = {each["context"]: each["id"] for each in self._client.ask(f"/schemas/guids/{guid}/ids") or []}
        return _registered(source, ids.get(".", min(ids.values(), default=None)))

    def latest(self, subject: str) -> RegisteredSchema | None:
        found = self._run(lookup.by_subject(subject))
        return None if found is None else _registered(found.source, found.id)

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """The id of a schema in a subject, where it is from now on."""
        body = {"schema": schema.text, "schemaType": schema.kind}
        try:
            return int(self._client.send("POST", subject_path(subject, "versions"), body)["id"])
        except RegistryRefused as error:
            raise self._refused(error) from error

    def _run(self, steps: lookup.Steps[T]) -> T:
        try:
            return lookup.run(steps, self._client.ask)
        except RegistryRefused as error:
            raise self._refused(error) from error

    def _refused(self, error: RegistryRefused) -> SchemaError:
        return SchemaError(f"the registry at {self._client.name} refuses: {error}")


def _registered(source: lookup.Source, schema_id: int | None) -> RegisteredSchema:
    return RegisteredSchema(source.kind, source.text, schema_id, source.needed)
