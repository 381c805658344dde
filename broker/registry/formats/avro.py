"""Avro schemas. The library decides whether a text is one, and whether a reader can read what a writer wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from avro.compatibility import (
    ReaderWriterCompatibilityChecker,
    SchemaCompatibilityResult,
    SchemaCompatibilityType,
    SchemaIncompatibilityType,
    incompatible,
    merge,
)
from avro.errors import AvroException
from avro.name import Names
from avro.schema import make_avsc_object

from broker.registry.errors import RegistryError, invalid_schema
from broker.registry.formats import avro_text
from broker.registry.formats.parsed import Given, Work, read_json

if TYPE_CHECKING:
    from avro.schema import RecordSchema, Schema

RESOLVED = "resolved"
ROOT = ReaderWriterCompatibilityChecker.ROOT_REFERENCE_TOKEN
PAIR = 10
"""What the library takes to compare two types, in comparisons."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """See `parsed.Parsed`. `needed` are the definitions of the references."""

    text: str
    source: Any
    schema: Schema
    needed: dict[str, tuple[Any, str]]

    @property
    def meaning(self) -> str:
        return self.text

    def normalized(self) -> str:
        ordered = avro_text.Normal().value(self.source)
        return avro_text.text_of(avro_text.Canonical(), ordered)

    def formatted(self, name: str) -> str:
        return avro_text.text_of(avro_text.Resolved(self.needed), self.source) if name == RESOLVED else self.text

    def problems(self, writer: AvroSchema, _policy: str, work: Work) -> list[str]:
        result = _Checker(work).get_compatibility(self.schema, writer.schema)
        if result.compatibility is not SchemaCompatibilityType.incompatible:
            return []
        kinds = ", ".join(dict.fromkeys(kind.name.upper() for kind in result.incompatibilities))
        places, texts = ", ".join(sorted(result.locations - {"/"})) or "/", "; ".join(sorted(result.messages))
        return [
            f"{{errorType:'{kinds}', description:'the reader cannot read what the writer has at {places}: {texts}'}}"
        ]


class _Checker(ReaderWriterCompatibilityChecker):
    """The library's, which counts its work."""

    def __init__(self, work: Work) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._work = work
        self._known: dict[tuple[int, int], SchemaCompatibilityResult] = {}

    def get_compatibility(
        self, reader: Schema, writer: Schema, reference_token: str = ROOT, location: list[str] | None = None
    ) -> SchemaCompatibilityResult:
        """As the library's, whose memory is slow where a schema is compared with itself: all pairs have one hash."""
        pair = id(reader), id(writer)
        found = self._known.get(pair)
        if found is None:
            self._known[pair] = SchemaCompatibilityResult(SchemaCompatibilityType.compatible)  # within itself
            found = self.calculate_compatibility(reader, writer, [*(location or ()), reference_token])
            self._known[pair] = found
        return found

    def calculate_compatibility(self, reader: Schema, writer: Schema, location: list[str]) -> SchemaCompatibilityResult:
        self._work.spend(PAIR + len(location))
        return super().calculate_compatibility(reader, writer, location)

    def check_reader_writer_record_fields(
        self, reader: RecordSchema, writer: RecordSchema, location: list[str]
    ) -> SchemaCompatibilityResult:
        """As the library's, which lists the writer's fields anew for each; and as Java's, which does not choose."""
        result = SchemaCompatibilityResult(SchemaCompatibilityType.compatible)
        known = writer.fields_dict
        for at, field in enumerate(reader.fields):
            place = [*location, "fields", str(at)]
            found = [known[name] for name in (field.name, *(field.props.get("aliases") or ())) if name in known]
            if len(found) > 1:
                reason = f"{field.name} may be several fields of the writer, by its name and aliases"
                result = merge(result, incompatible(SchemaIncompatibilityType.name_mismatch, reason, place))
            elif found:
                result = merge(result, self.get_compatibility(field.type, found[0].type, "type", place))
            elif not field.has_default:
                missing = SchemaIncompatibilityType.reader_field_missing_default_value
                result = merge(result, incompatible(missing, field.name, place))
        return result


def parse(given: Given) -> AvroSchema:
    """Raises RegistryError."""
    names, known = Names(), dict[str, tuple[Any, str]]()
    for needed in given.needed:
        source = read_json(needed.text)
        _made(source, names, f"reference {needed.name}")
        avro_text.definitions(source, "", known)
    source = _json_or_name(given.text)
    schema = _made(source, names, "schema")
    return AvroSchema(avro_text.text_of(avro_text.Canonical(), source), source, schema, known)


def _json_or_name(text: str) -> Any:
    """The JSON of a schema; a primitive type may be named without quotes, as old clients did."""
    return text.strip() if text.strip() in avro_text.PRIMITIVE else read_json(text)


def _made(source: Any, names: Names, what: str) -> Schema:
    try:
        if isinstance(source, str) and source not in avro_text.PRIMITIVE:
            found = names.get_name(source, None)
            if found is None:
                raise invalid_schema(f"Invalid schema: there is no type {source[:200]!r}")
            return found
        made = make_avsc_object(avro_text.prepared(source), names)
        avro_text.check_unions(source)
        return made
    except RegistryError:
        raise
    except (AvroException, ValueError, TypeError, AttributeError, LookupError) as error:
        # The library says what is wrong by errors of its own, and by those of Python where it did not look.
        raise invalid_schema(f"Invalid schema of type AVRO, details: the {what}: {_short(error)}") from error


def _short(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 500 else text[:500] + "..."
