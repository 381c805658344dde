"""The parts of a JSON Schema, and what kind of schema each one is.

That is decided as by the library of Confluent's registry (Everit's), since its rules compare by kind: a part with
`type` is of that type, one with several types is a choice between them, and one without is of the type that its
keywords are for. A part with more than one of these, or with `enum`, `const`, `not` or a combination besides, is a
combination of all of them.

References are followed within the schema, and into those that it refers to by name or by their `$id`; nothing is
fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from broker.registry.errors import invalid_schema
from broker.registry.formats.parsed import Given, read_json

_ARRAY = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "prefixItems")
_OBJECT = (
    *("properties", "required", "minProperties", "maxProperties", "dependencies", "patternProperties"),
    *("additionalProperties", "propertyNames", "dependentRequired", "dependentSchemas"),
)
_NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRING = ("minLength", "maxLength", "pattern", "format")
_SNIFFED = (("array", _ARRAY), ("object", _OBJECT), ("number", _NUMBER), ("string", _STRING))
COMBINED = ("anyOf", "allOf", "oneOf")
MOST_STEPS = 100
"""References from one to the next: more are a circle, or as good as one."""

ANYTHING, TRUE, FALSE = "anything", "true", "false"


@dataclass(eq=False, slots=True)
class Node:
    """A part of a schema. `kind` is a type of JSON (integers are numbers), `enum`, `const`, `not`, `if`, `$ref`, one of
    `COMBINED`, or `ANYTHING`, `TRUE` or `FALSE`. `values` are its keywords, `base` the URI by which its references go,
    `identity` is noted by who needs one.
    """

    kind: str
    values: Mapping[str, Any]
    base: str
    document: Document
    parts: list[Node] = field(default_factory=list)
    is_integer: bool = False
    identity: str = ""


class Document:
    """A schema with those that it refers to. `root` is what its own text is."""

    def __init__(self, given: Given, source: Any) -> None:
        self._known: dict[str, Any] = {}
        self._nodes: dict[int, Node] = {}
        self._kept: list[Any] = []  # `_nodes` goes by identity
        self._always = {value: Node(TRUE if value else FALSE, {}, "", self) for value in (True, False)}
        for needed in given.needed:
            self._add(needed.name, read_json(needed.text))
        self.base = id_of(source, "")
        self._add("", source)
        self._add(self.base, source)
        self.root = self.node(source, "")

    def _add(self, uri: str, source: Any) -> None:
        self._known.setdefault(uri, source)
        for own, part in _identified(source, uri):
            self._known.setdefault(own, part)

    def node(self, source: Any, base: str) -> Node:
        """What a part is; the same object each time."""
        if isinstance(source, bool):
            return self._always[source]
        if not isinstance(source, dict):
            raise invalid_schema("Invalid schema of type JSON: a schema must be an object, true or false")
        found = self._nodes.get(id(source))
        if found is None:
            found = self._nodes[id(source)] = self._made(source, id_of(source, base))
            self._kept.append(source)
        return found

    def _made(self, source: dict[str, Any], base: str) -> Node:
        if "$ref" in source:
            return Node("$ref", source, base, self)
        parts = list(self._parts(source, base))
        if not parts:
            return Node(ANYTHING, source, base, self)
        return parts[0] if len(parts) == 1 else Node("allOf", source, base, self, parts)

    def _parts(self, source: dict[str, Any], base: str) -> Iterator[Node]:
        if "enum" in source:
            yield Node("enum", source, base, self)
        for name in COMBINED:
            if name in source:
                yield Node(name, source, base, self, [self.node(each, base) for each in source[name]])
        if "not" in source:
            yield Node("not", source, base, self, [self.node(source["not"], base)])
        if "const" in source:
            yield Node("const", source, base, self)
        if "if" in source:
            yield Node("if", source, base, self)
        types = source.get("type")
        if isinstance(types, list):
            yield Node("anyOf", source, base, self, [self._typed(each, source, base) for each in types])
        elif types is not None:
            yield self._typed(types, source, base)
        else:
            for kind, keywords in _SNIFFED:
                if any(keyword in source for keyword in keywords):
                    yield Node(kind, source, base, self)

    def _typed(self, kind: str, source: dict[str, Any], base: str) -> Node:
        is_integer = kind == "integer"
        return Node("number" if is_integer else kind, source, base, self, is_integer=is_integer)

    def referred(self, node: Node) -> Node:
        """What a reference stands for, through others. Raises RegistryError if there is nothing, or only a circle."""
        for _ in range(MOST_STEPS):
            if node.kind != "$ref":
                return node
            node = self._resolved(str(node.values["$ref"]), node.base)
        raise invalid_schema(f"Invalid schema of type JSON: $ref {node.values['$ref']!r} refers to itself")

    def _resolved(self, reference: str, base: str) -> Node:
        for uri in (urljoin(base, reference), reference):
            target, fragment = urldefrag(uri)
            if uri in self._known:
                return self.node(self._known[uri], target)
            for known in (target, target.removesuffix("/")):
                if known in self._known:
                    part = _at(self._known[known], unquote(fragment))
                    if part is not None:
                        return self.node(part, target)
        raise invalid_schema(f"Invalid schema of type JSON: unresolved $ref {reference!r}: name it in references")


def _identified(source: Any, base: str) -> Iterator[tuple[str, Any]]:
    """The parts of a schema that have a URI of their own, by `$id` or `$anchor`."""
    if isinstance(source, list):
        for each in source:
            yield from _identified(each, base)
    elif isinstance(source, dict):
        own = id_of(source, base)
        if own != base:
            yield own, source
            yield urldefrag(own)[0], source
        if isinstance(source.get("$anchor"), str):
            yield f"{own}#{source['$anchor']}", source
        for each in source.values():
            yield from _identified(each, own)


def id_of(source: Any, base: str) -> str:
    if not isinstance(source, dict):
        return base
    found = source.get("$id", source.get("id"))
    return urljoin(base, found) if isinstance(found, str) else base


def _at(source: Any, pointer: str) -> Any | None:
    """What a JSON pointer leads to; None if nothing."""
    if pointer and not pointer.startswith("/"):
        return None
    for escaped in pointer.split("/")[1:]:
        step = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(source, dict) and step in source:
            source = source[step]
        elif isinstance(source, list) and step.isdecimal() and int(step[:6]) < len(source):
            source = source[int(step[:6])]
        else:
            return None
    return source
