"""JSON Schemas: `jsonschema` decides whether a text is one, by the metaschema of its draft (7 if it names none)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jsonschema import FormatChecker
from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft7Validator, validator_for

from broker.registry.errors import invalid_schema
from broker.registry.formats.json_differences import differences
from broker.registry.formats.json_nodes import Document, Node, id_of
from broker.registry.formats.parsed import Given, Work, read_json
from broker.registry.records import compact

_NO_FORMATS = FormatChecker(formats=())
"""So that no regular expression of a stranger's is compiled, and dialects of them do not matter."""

_VALUES = ("enum", "const", "default", "examples")
"""What is below these is no schema."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """See `parsed.Parsed`."""

    text: str
    source: Any
    document: Document

    @property
    def meaning(self) -> str:
        return self.text

    def normalized(self) -> str:
        return compact(self.source, in_order=True)

    def formatted(self, _name: str) -> str:
        return self.text

    def problems(self, writer: JsonSchema, policy: str, work: Work) -> list[str]:
        found = differences(writer.document.root, self.document.root, policy, work)
        refused = [each.text for each in found if not each.kind.is_allowed(policy)]
        return list(dict.fromkeys(refused))


def parse(given: Given) -> JsonSchema:
    """Raises RegistryError."""
    source = read_json(given.text)
    if not isinstance(source, dict | bool):
        raise invalid_schema("Invalid schema of type JSON: a schema must be an object, true or false")
    if isinstance(source, dict) and not isinstance(source.get("$schema"), str | None):
        raise invalid_schema("Invalid schema of type JSON: $schema must be a text")
    try:
        validator_for(source, default=Draft7Validator).check_schema(source, format_checker=_NO_FORMATS)
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path))
        raise invalid_schema(f"Invalid schema of type JSON, details: at '#/{place}': {error.message[:300]}") from error
    document = Document(given, source)
    _check_references(document, source)
    return JsonSchema(compact(source), source, document)


def _check_references(document: Document, source: Any) -> None:
    """Raises RegistryError if something refers to what is not there."""
    rest = [(source, document.base)]
    while rest:
        part, base = rest.pop()
        if isinstance(part, list):
            rest += [(each, base) for each in part]
        elif isinstance(part, dict):
            base = id_of(part, base)
            if isinstance(part.get("$ref"), str):
                document.referred(Node("$ref", part, base, document))
            rest += [(each, base) for name, each in part.items() if name not in _VALUES]
