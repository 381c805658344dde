"""Keys and values by schemas, for `produce` and `consume`: `--value avro` and its like.

| word                                | bytes                  | written with                   |
| ----------------------------------- | ---------------------- | ------------------------------ |
| `avro`, `jsonschema`, `protobuf`    | an id in front, or in a header | the latest of a subject |
| `avro:id=7`                         | an id in front         | the schema with this id        |
| `avro:latest`, `avro:@FILE`         | nothing in front       | that schema                    |
| `json`                              | JSON, of no schema     |                                |

As JSON they are one value on each line, which is what `produce` takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import click
from confluent_kafka import Message

from odradek.cli.general import given
from odradek.cli.output import Output
from odradek.cli.registry_access import client_of, ended_by
from odradek.schemas import codecs, files, lookup, registry_specs
from odradek.schemas.client import RegistryAway, RegistryClient, RegistryRefused
from odradek.schemas.errors import MissingLibraryError, SchemaError
from odradek.schemas.framing import ID_BYTES, Framed, framed, id_of, with_prefix
from odradek.schemas.json_text import json_of
from odradek.schemas.registry_specs import KEY, RegisteredSpec

LONGEST = 8 << 20
"""A value of more bytes is not decoded."""

MOST_TOLD = 10
"""Of so many keys and values it is said one by one why they are not decoded."""

JSON = RegisteredSpec("")
"""Plain JSON, of no schema."""


class Read(NamedTuple):
    """A key or value that was decoded: as JSON has it, and its schema, None for one that no record names."""

    value: Any
    schema: int | str | None


def spec_of(text: str, option: str, *, with_id: bool = False) -> RegisteredSpec:
    """Raises BadParameter."""
    try:
        found = JSON if text == "json" else registry_specs.parse(text, with_id=with_id)
        if found is None:
            raise ValueError(registry_specs.FORMS)
    except ValueError as error:
        more = ", :id=N; or json, of no schema" if with_id else "; or json, of no schema"
        why = "" if str(error) == registry_specs.FORMS else f" ({error})"
        raise click.BadParameter(f"{text!r}: expected {registry_specs.FORMS}{more}{why}", param_hint=option) from error
    return found


class Schemas:
    """The schemas of the registry that the options name, each asked for once; it is not asked before one is needed."""

    def __init__(self) -> None:
        self._codecs: dict[tuple[int | str, str, str], codecs.Codec | None] = {}

    @cached_property
    def client(self) -> RegistryClient:
        return client_of(given(click.get_current_context()))

    def run(self, steps: lookup.Steps[Any]) -> Any:
        """The result. Raises ClickException if the registry does not answer or refuses."""
        try:
            return lookup.run(steps, self.client.ask)
        except (RegistryAway, RegistryRefused) as error:
            raise ended_by(error, self.client) from error

    def codec(self, name: int | str, subject: str, message: str) -> codecs.Codec:
        """The schema of an id in the context of a subject, or of a GUID. Raises SchemaError."""
        key = (name, subject, message)
        if key not in self._codecs:
            source = self.run(lookup.by_name(name, subject))
            self._codecs[key] = None if source is None else parsed(source, message)
        found = self._codecs[key]
        if found is None:
            raise SchemaError(f"schema id {name} is unknown")
        return found

    def fixed(self, spec: RegisteredSpec, subject: str) -> tuple[codecs.Codec, int | None]:
        """The schema of a file or the latest of a subject, with its id. Raises ClickException, SchemaError."""
        if spec.file:
            return parsed(files.source_of_file(spec.kind, spec.file), spec.message), None
        found = self.run(lookup.by_subject(subject))
        if found is None:
            raise click.ClickException(
                f"the registry at {self.client.name} has no subject {subject}: "
                f"`odradek registry register {subject} FILE` makes it, or name another by :subject=NAME, or a :@FILE"
            )
        return of_kind(parsed(found.source, spec.message), spec, f"of subject {subject}"), int(found.id)


def parsed(source: lookup.Source, message: str) -> codecs.Codec:
    """Raises SchemaError."""
    return codecs.codec_of(source, message or None if source.kind == lookup.PROTOBUF else None, LONGEST)


def of_kind(codec: codecs.Codec, spec: RegisteredSpec, which: object) -> codecs.Codec:
    """Raises SchemaError if the schema is of another kind than wanted."""
    if codec.kind != spec.kind:
        word = next(word for word, kind in registry_specs.KINDS.items() if kind == codec.kind)
        raise SchemaError(f"schema {which} is one of {codecs.NAMES[codec.kind]}: {word} reads and writes it")
    return codec


class Reader:
    """Reads keys or values of any topic; of what cannot be read it is told why, and the bytes stay as they are."""

    def __init__(self, spec: RegisteredSpec, side: str, schemas: Schemas, out: Output) -> None:
        self._spec = spec
        self._side = side
        self._schemas = schemas
        self._out = out
        self._fixed: dict[str, codecs.Codec] = {}
        self.untold = 0

    def __call__(self, message: Message) -> Read | None:
        """None for null, and for what cannot be read. Raises ClickException if that is nothing of the record's."""
        content: Any = message.key() if self._side == KEY else message.value()
        if content is None:
            return None
        try:
            return self._read(content, message)
        except MissingLibraryError as error:
            raise click.ClickException(str(error)) from error
        except SchemaError as error:
            self._tell(message, str(error))
            return None

    def _read(self, content: bytes, message: Message) -> Read:
        spec, topic = self._spec, str(message.topic())
        if spec is JSON:
            return Read(_json_of(content), None)
        subject = spec.subject_of(topic, self._side)
        if not spec.by_id:
            codec = self._fixed.get(subject)
            if codec is None:
                codec = self._fixed[subject] = _or_end(lambda: self._schemas.fixed(spec, subject)[0])
            try:
                return Read(_decoded(codec, Framed(0, content, codec.front), "the schema"), None)
            except SchemaError as error:
                raise SchemaError(f"{error}{_hint(content)}") from error
        headers: Any = message.headers() or ()
        part = framed(content, headers, is_key=self._side == KEY)
        if part is None:
            raise SchemaError("no schema prefix: the first byte is not 0")
        codec = of_kind(self._schemas.codec(part.schema, subject, spec.message), spec, part.schema)
        return Read(_decoded(codec, part, f"schema {part.schema}"), part.schema)

    def _tell(self, message: Message, why: str) -> None:
        if self.untold or self._out.failures >= MOST_TOLD:
            self.untold += 1
            return
        record = f"{message.topic()}-{message.partition()} at offset {message.offset()}"
        self._out.failure({f"{self._side}_of": record}, self._side, why)

    def end(self) -> None:
        """Say how many others could not be read."""
        if self.untold:
            click.echo(f"Error: {self.untold} more {self._side}s could not be read", err=True)


def _hint(content: bytes) -> str:
    schema_id = id_of(content)
    return (
        "" if schema_id is None else f" (it begins as if it had the id {schema_id} in front: without :latest or :@FILE)"
    )


def _or_end(make: Callable[[], codecs.Codec]) -> codecs.Codec:
    """Raises ClickException: the schema is not that of one record."""
    try:
        return make()
    except SchemaError as error:
        raise click.ClickException(str(error)) from error


def _json_of(content: bytes) -> Any:
    """JSON, with an id in front or not. Raises SchemaError."""
    try:
        return json_of(content if id_of(content) is None else content[ID_BYTES:])
    except ValueError as error:
        raise SchemaError(f"it is no JSON: {error}") from error


def _decoded(codec: codecs.Codec, part: Framed, which: str) -> Any:
    """As JSON has it. Raises SchemaError."""
    try:
        return codecs.plain(codec.decode(part))
    except MissingLibraryError:
        raise
    except (SchemaError, RecursionError) as error:
        raise SchemaError(f"does not fit {which}: {error}") from error


class Writer:
    """Makes the bytes of keys or values of a topic from JSON. Raises ClickException if there is no such schema."""

    def __init__(self, spec: RegisteredSpec, topic: str, side: str, schemas: Schemas) -> None:
        self._codec: codecs.Codec | None = None
        self._id: int | None = None
        if spec is JSON:
            return
        subject = spec.subject_of(topic, side)
        try:
            if spec.id is not None:
                self._id = spec.id
                self._codec = of_kind(schemas.codec(spec.id, subject, spec.message), spec, spec.id)
            else:
                self._codec, schema_id = schemas.fixed(spec, subject)
                self._id = schema_id if spec.by_id else None
            self._front = self._codec.front
        except SchemaError as error:
            raise click.ClickException(f"{side}: {error}") from error

    def of_text(self, text: str, what: str) -> bytes:
        """The bytes for a text in JSON. Raises ClickException that names what it is."""
        try:
            return self.of_value(json_of(text), what)
        except ValueError as error:
            hint = ' (a text is written "so")' if self._codec is not None else ""
            raise click.ClickException(f"{what} {text[:200]!r} is no JSON: {error}{hint}") from error

    def of_value(self, value: Any, what: str) -> bytes:
        """Raises ClickException that names what it is."""
        if self._codec is None:
            return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
        try:
            payload = self._codec.encode(value)
        except SchemaError as error:
            raise click.ClickException(f"{what} {error}") from error
        if self._id is None:
            return payload[len(self._front) :]
        return with_prefix(self._id, payload)
