"""Texts of Avro schemas: as Apache Avro for Java writes them, which is what Confluent's registry keeps.

Spaces go, attributes come in one order, namespaces are left out where they are those around, and types that were
already defined are named. `Normal` also orders what has no order, and writes every name in full. Both take JSON that
the library has read, so its form is known to be right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker.registry.records import compact

PRIMITIVE = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
NAMED = frozenset(("record", "error", "enum", "fixed"))
_UNNAMED = PRIMITIVE | {"array", "map"}
_OF_SCHEMA = frozenset(("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"))
_OF_ENUM = _OF_SCHEMA | {"default"}
_OF_FIELD = frozenset(("default", "doc", "name", "order", "type", "aliases"))


def full_name(name: str, space: str) -> str:
    """A name with its namespace: its own, or the one around it."""
    return name if "." in name or not space else f"{space}.{name}"


def named(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """The name and the namespace of a definition."""
    name = schema["name"]
    if "." in name:
        own, _, name = name.rpartition(".")
        return name, own
    own = schema.get("namespace")
    return name, space if own is None else own


def prepared(schema: Any, space: str = "") -> Any:
    """The same schema for the library, which takes aliases for whole names, and is not to look at logical types."""
    if isinstance(schema, list):
        return [prepared(branch, space) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: value for name, value in schema.items() if name != "logicalType"}
    kind = schema.get("type")
    if isinstance(kind, dict | list):
        return made | {"type": prepared(kind, space)} if "name" in schema else prepared(kind, space)
    if isinstance(kind, str) and kind in NAMED and isinstance(schema.get("name"), str):
        if isinstance(schema.get("namespace"), str) or "." in schema["name"]:
            space = named(schema, space)[1]
        if isinstance(schema.get("aliases"), list):
            made["aliases"] = [full_name(each, space) if isinstance(each, str) else each for each in schema["aliases"]]
    if kind == "enum" and not isinstance(schema.get("symbols"), list):
        made["symbols"] = None  # the library would take a text for its letters
    for part in ("items", "values"):
        if part in made:
            made[part] = prepared(made[part], space)
    if kind in ("record", "error") and isinstance(schema.get("fields"), list):
        made["fields"] = [_prepared_field(field, space) for field in schema["fields"]]
    return made


def _prepared_field(field: Any, space: str) -> Any:
    return field | {"type": prepared(field["type"], space)} if isinstance(field, dict) and "type" in field else field


def check_unions(schema: Any, space: str = "") -> None:
    """Raises ValueError for a union that has a named type twice, which the library lets through."""
    if isinstance(schema, list):
        kinds = [_kind(branch, space) for branch in schema]
        if len({*kinds}) < len(kinds):
            raise ValueError(f"a union has a type twice: {', '.join(kinds)}"[:500])
        for branch in schema:
            check_unions(branch, space)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if isinstance(kind, str) and kind in NAMED:
            space = named(schema, space)[1]
            for field in schema.get("fields", ()):
                check_unions(field["type"], space)
        else:
            check_unions(schema.get("items", schema.get("values", kind)), space)


def _kind(branch: Any, space: str) -> str:
    """What a branch of a union is told from others by."""
    if isinstance(branch, dict):
        kind = branch.get("type")
        if isinstance(kind, str) and kind in NAMED:
            name, own = named(branch, space)
            return full_name(name, own)
        return _kind(kind, space)
    return full_name(branch, space) if isinstance(branch, str) and branch not in _UNNAMED else str(branch)


class Canonical:
    """Writes a schema as Java's `Schema.toString` does."""

    def value(self, schema: Any, space: str = "") -> Any:
        """The schema as JSON whose parts are in order; `space` is the namespace around it."""
        if isinstance(schema, list):
            return [self.value(branch, space) for branch in schema]
        if isinstance(schema, str):
            return schema if schema in PRIMITIVE else self._reference(schema, space)
        kind = schema["type"]
        if not isinstance(kind, str):  # {"type": {"type": ...}}
            return self.value(kind, space)
        if kind in NAMED:
            return self._definition(kind, schema, space)
        more = self.properties(schema, _OF_SCHEMA)
        if kind == "array":
            return {"type": kind, "items": self.value(schema["items"], space), **more}
        if kind == "map":
            return {"type": kind, "values": self.value(schema["values"], space), **more}
        if kind in PRIMITIVE:
            return {"type": kind, **more} if more else kind
        return self._reference(kind, space)

    def _reference(self, name: str, space: str) -> str:
        own, _, short = full_name(name, space).rpartition(".")
        return short if own == space and short not in PRIMITIVE else full_name(name, space)

    def _definition(self, kind: str, schema: Mapping[str, Any], space: str) -> dict[str, Any]:
        name, own = named(schema, space)
        made: dict[str, Any] = {"type": kind, "name": name}
        if own != space:
            made["namespace"] = own
        if schema.get("doc") is not None:
            made["doc"] = schema["doc"]
        if kind == "enum":
            made["symbols"] = schema["symbols"]
            made |= {"default": schema["default"]} if "default" in schema else {}
        elif kind == "fixed":
            made["size"] = schema["size"]
        else:
            made["fields"] = [self._field(field, own) for field in schema["fields"]]
        made |= self.properties(schema, _OF_ENUM if kind == "enum" else _OF_SCHEMA)
        if schema.get("aliases"):
            made["aliases"] = [_relative(full_name(each, own), own) for each in dict.fromkeys(schema["aliases"])]
        return made

    def _field(self, field: Mapping[str, Any], space: str) -> dict[str, Any]:
        made: dict[str, Any] = {"name": field["name"], "type": self.value(field["type"], space)}
        if field.get("doc") is not None:
            made["doc"] = field["doc"]
        if "default" in field:
            made["default"] = field["default"]
        if field.get("order", "ascending").lower() != "ascending":
            made["order"] = field["order"].lower()
        if field.get("aliases"):
            made["aliases"] = list(dict.fromkeys(field["aliases"]))
        return made | self.properties(field, _OF_FIELD)

    def properties(self, schema: Mapping[str, Any], reserved: Iterable[str]) -> dict[str, Any]:
        """What a schema has besides what Avro gives a meaning to."""
        return {name: value for name, value in schema.items() if name not in reserved}


class Normal(Canonical):
    """Writes a schema as Confluent's registry does with `normalize`."""

    def _reference(self, name: str, space: str) -> str:
        return full_name(name, space)

    def _definition(self, kind: str, schema: Mapping[str, Any], space: str) -> dict[str, Any]:
        name, own = named(schema, space)
        made: dict[str, Any] = {"name": full_name(name, own), "type": kind}
        if kind == "enum":
            made["symbols"] = schema["symbols"]
        elif kind == "fixed":
            made["size"] = schema["size"]
        else:
            made["fields"] = [self._field(field, own) for field in schema["fields"]]
        if schema.get("doc"):
            made["doc"] = schema["doc"]
        if schema.get("aliases"):
            made["aliases"] = sorted({full_name(each, own) for each in schema["aliases"]})
        if kind == "enum" and "default" in schema:
            made["default"] = schema["default"]
        return made | self.properties(schema, _OF_ENUM if kind == "enum" else _OF_SCHEMA)

    def _field(self, field: Mapping[str, Any], space: str) -> dict[str, Any]:
        made: dict[str, Any] = {"name": field["name"], "type": self.value(field["type"], space)}
        made["order"] = field.get("order", "ascending")
        if field.get("doc") is not None:
            made["doc"] = field["doc"]
        if field.get("aliases"):
            made["aliases"] = sorted(set(field["aliases"]))
        if "default" in field:
            made["default"] = _sorted(field["default"])
        return made | self.properties(field, _OF_FIELD)

    def properties(self, schema: Mapping[str, Any], reserved: Iterable[str]) -> dict[str, Any]:
        found = super().properties(schema, reserved)
        return {name: _sorted(found[name]) for name in sorted(found)}


class Resolved(Canonical):
    """Writes a schema with the definitions of `known` types in it, each where it is first needed."""

    def __init__(self, known: Mapping[str, tuple[Any, str]]) -> None:
        self._known = dict(known)

    def _reference(self, name: str, space: str) -> Any:
        definition = self._known.pop(full_name(name, space), None)
        if definition is None:
            return super()._reference(name, space)
        schema, around = definition
        written = self._definition(schema["type"], {**schema, "namespace": named(schema, around)[1]}, space)
        return written


def definitions(schema: Any, space: str, found: dict[str, tuple[Any, str]]) -> None:
    """Collect the types that a schema defines, by name, each with the namespace around it."""
    if isinstance(schema, list):
        for branch in schema:
            definitions(branch, space, found)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if not isinstance(kind, str):
            definitions(kind, space, found)
        elif kind in NAMED:
            name, own = named(schema, space)
            found[full_name(name, own)] = schema, space
            for field in schema.get("fields", ()):
                definitions(field["type"], own, found)
        else:
            definitions(schema.get("items", schema.get("values")), space, found)


def text_of(writer: Canonical, schema: Any) -> str:
    return compact(writer.value(schema))


def _relative(name: str, space: str) -> str:
    own, _, short = name.rpartition(".")
    return short if own == space else name


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
