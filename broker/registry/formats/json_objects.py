"""Differences between objects of two JSON Schemas: properties, and whether others than those are allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from broker.registry.formats.json_limits import Compares, compare_limits, limits_of
from broker.registry.formats.json_nodes import ANYTHING, FALSE, TRUE, Node
from broker.registry.formats.json_rules import Difference, Kind

_LIMITS = limits_of("maxProperties", "minProperties")
LONGEST_PATTERN = 2000


class Kinds(NamedTuple):
    """How differences in what is not named are called."""

    added: Kind
    removed: Kind
    extended: Kind
    narrowed: Kind


_UNEVALUATED = Kinds(
    Kind.UNEVALUATED_PROPERTIES_ADDED,
    Kind.UNEVALUATED_PROPERTIES_REMOVED,
    Kind.UNEVALUATED_PROPERTIES_EXTENDED,
    Kind.UNEVALUATED_PROPERTIES_NARROWED,
)
_ADDITIONAL = Kinds(
    Kind.ADDITIONAL_PROPERTIES_ADDED,
    Kind.ADDITIONAL_PROPERTIES_REMOVED,
    Kind.ADDITIONAL_PROPERTIES_EXTENDED,
    Kind.ADDITIONAL_PROPERTIES_NARROWED,
)


def compare_objects(comparison: Compares, earlier: Node, later: Node) -> list[Difference]:
    """All differences between two objects."""
    return [
        *_required(earlier, later),
        *_properties(comparison, earlier, later),
        *_dependencies(comparison, earlier, later),
        *compare_rest(comparison, _ADDITIONAL, "additionalProperties", earlier, later),
        *compare_unevaluated(comparison, _UNEVALUATED, "unevaluatedProperties", earlier, later),
        *compare_limits(_LIMITS, earlier, later),
    ]


# -- what is not named


def rest_of(node: Node, name: str) -> tuple[bool, Node | None]:
    """Whether more is allowed than what is named, and by which schema; none for anything."""
    given = node.values.get(name)
    if isinstance(given, bool) or given is None:
        return given is not False, None
    return True, node.document.node(given, node.base)


def unevaluated(node: Node, name: str) -> Node | None:
    """The schema of what nothing describes."""
    given = node.values.get(name)
    return None if given is None else node.document.node(given, node.base)


def compare_rest(comparison: Compares, kinds: Kinds, name: str, earlier: Node, later: Node) -> list[Difference]:
    """Differences in `additionalProperties` or `additionalItems`."""
    (allowed, schema), (still_allowed, new_schema) = rest_of(earlier, name), rest_of(later, name)
    if allowed != still_allowed:
        return [Difference(kinds.added if still_allowed else kinds.removed, f"/{name}")]
    if (schema is None) != (new_schema is None):
        return [Difference(kinds.narrowed if schema is None else kinds.extended, f"/{name}")]
    return comparison.compare(schema, new_schema, f"/{name}")


def compare_unevaluated(comparison: Compares, kinds: Kinds, name: str, earlier: Node, later: Node) -> list[Difference]:
    """Differences in `unevaluatedProperties` or `unevaluatedItems`: without it, anything is allowed."""
    before, after = unevaluated(earlier, name), unevaluated(later, name)
    if before is None and after is None:
        return []
    forbids, will_forbid = (node is not None and node.kind == FALSE for node in (before, after))
    if forbids != will_forbid:
        return [Difference(kinds.added if forbids else kinds.removed, f"/{name}")]
    takes_all, will_take_all = (node is None or node.kind in (ANYTHING, TRUE) for node in (before, after))
    if before is None or after is None or takes_all != will_take_all:
        narrowed = before is None or (takes_all and after is not None)
        return [Difference(kinds.narrowed if narrowed else kinds.extended, f"/{name}")]
    return comparison.compare(before, after, f"/{name}")


# -- properties


def _named(node: Node) -> dict[str, Node]:
    given = node.values.get("properties") or {}
    return {name: node.document.node(schema, node.base) for name, schema in given.items()}


def _required_of(node: Node) -> list[str]:
    given = node.values.get("required")
    return given if isinstance(given, list) else []


def _is_open(node: Node) -> bool:
    allowed, schema = rest_of(node, "additionalProperties")
    others = unevaluated(node, "unevaluatedProperties")
    is_described = schema is not None or bool(node.values.get("patternProperties"))
    return allowed and not is_described and (others is None or others.kind in (ANYTHING, TRUE))


def _partly(comparison: Compares, node: Node, name: str) -> Node | None:
    """The schema that a property which is not named must fit, in an object that is neither open nor closed."""
    for pattern, schema in (node.values.get("patternProperties") or {}).items():
        if _matches(pattern, name):
            return node.document.node(schema, node.base)
    allowed, schema = rest_of(node, "additionalProperties")
    if schema is not None:
        return schema
    others = unevaluated(node, "unevaluatedProperties")
    is_schema = others is not None and others.kind not in (ANYTHING, TRUE, FALSE)
    return others if allowed and is_schema else None


def _matches(pattern: str, name: str) -> bool:
    """Whether a property's name has the pattern in it; what cannot be matched in linear time does not."""
    import re2

    if len(pattern) > LONGEST_PATTERN:
        return False
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options).search(name) is not None
    except re2.error:
        return False


def _required(earlier: Node, later: Node) -> Iterator[Difference]:
    before, after = _required_of(earlier), _required_of(later)
    new = later.values.get("properties") or {}
    for name in earlier.values.get("properties") or {}:
        if name in new and (name in before) != (name in after):
            kind = Kind.REQUIRED_ATTRIBUTE_REMOVED if name in before else Kind.REQUIRED_ATTRIBUTE_ADDED
            if name in after and _has_default(new[name]):
                kind = Kind.REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED
            yield Difference(kind, f"/required/{name}")


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _properties(comparison: Compares, earlier: Node, later: Node) -> Iterator[Difference]:
    before, after = _named(earlier), _named(later)
    for name in dict.fromkeys([*before, *after]):
        path = f"/properties/{name}"
        if name not in after:
            yield from _removed(comparison, before[name], later, name, path)
        elif name not in before:
            yield from _added(comparison, earlier, after[name], later, name, path)
        else:
            yield from comparison.compare(before[name], after[name], path)


def _removed(comparison: Compares, schema: Node, later: Node, name: str, path: str) -> Iterator[Difference]:
    if _is_open(later):
        yield Difference(Kind.PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL, path)
        return
    rest = _partly(comparison, later, name)
    if rest is None:
        is_false = schema.kind == FALSE
        yield Difference(
            Kind.PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL
            if is_false
            else Kind.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL,
            path,
        )
        return
    found = comparison.compare(schema, rest, path)
    yield from found
    yield Difference(
        Kind.PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
        if comparison.fits(found)
        else Kind.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        path,
    )


def _added(
    comparison: Compares, earlier: Node, schema: Node, later: Node, name: str, path: str
) -> Iterator[Difference]:
    is_open = _is_open(earlier)
    if is_open and schema.kind in (ANYTHING, TRUE):
        yield Difference(Kind.PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL, path)
        return
    rest = None if is_open else _partly(comparison, earlier, name)
    if rest is not None:
        found = comparison.compare(rest, schema, path)
        yield from found
        yield Difference(
            Kind.PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
            if comparison.fits(found)
            else Kind.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
            path,
        )
    which = "OPTIONAL_PROPERTY"
    if name in _required_of(later):
        which = "REQUIRED_PROPERTY_WITH_DEFAULT" if _has_default(schema.values) else "REQUIRED_PROPERTY"
    yield Difference(Kind[f"{which}_ADDED_TO_{'OPEN' if is_open else 'UNOPEN'}_CONTENT_MODEL"], path)


# -- dependencies


def _depending(node: Node) -> tuple[dict[str, frozenset[str]], dict[str, Node]]:
    """On which properties each one depends, and the schemas that hold where it is."""
    names, schemas = {}, {}
    given = {**(node.values.get("dependencies") or {}), **(node.values.get("dependentRequired") or {})}
    for name, value in {**given, **(node.values.get("dependentSchemas") or {})}.items():
        if isinstance(value, list):
            names[name] = frozenset(value)
        else:
            schemas[name] = node.document.node(value, node.base)
    return names, schemas


def _dependencies(comparison: Compares, earlier: Node, later: Node) -> Iterator[Difference]:
    (names, schemas), (new_names, new_schemas) = _depending(earlier), _depending(later)
    for name in dict.fromkeys([*names, *new_names]):
        kind = _change(names.get(name), new_names.get(name))
        if kind is not None:
            yield Difference(kind, f"/dependencies/{name}")
    for name in dict.fromkeys([*schemas, *new_schemas]):
        path = f"/dependencies/{name}"
        if name not in new_schemas:
            yield Difference(Kind.DEPENDENCY_SCHEMA_REMOVED, path)
        elif name not in schemas:
            yield Difference(Kind.DEPENDENCY_SCHEMA_ADDED, path)
        else:
            yield from comparison.compare(schemas[name], new_schemas[name], path)


def _change(before: frozenset[str] | None, after: frozenset[str] | None) -> Kind | None:
    if before == after:
        return None
    if after is None:
        return Kind.DEPENDENCY_ARRAY_REMOVED
    if before is None:
        return Kind.DEPENDENCY_ARRAY_ADDED
    if after >= before:
        return Kind.DEPENDENCY_ARRAY_EXTENDED
    return Kind.DEPENDENCY_ARRAY_NARROWED if before >= after else Kind.DEPENDENCY_ARRAY_CHANGED
