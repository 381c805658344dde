"""Differences between arrays of two JSON Schemas: what all items must fit, those at a place, and the rest."""

from __future__ import annotations

from collections.abc import Iterator

from broker.registry.formats.json_limits import Compares, compare_limits, limits_of
from broker.registry.formats.json_nodes import ANYTHING, FALSE, TRUE, Node
from broker.registry.formats.json_objects import Kinds, compare_rest, compare_unevaluated, rest_of, unevaluated
from broker.registry.formats.json_rules import Difference, Kind

_LIMITS = limits_of("maxItems", "minItems", "maxContains", "minContains")
_ADDITIONAL = Kinds(
    Kind.ADDITIONAL_ITEMS_ADDED,
    Kind.ADDITIONAL_ITEMS_REMOVED,
    Kind.ADDITIONAL_ITEMS_EXTENDED,
    Kind.ADDITIONAL_ITEMS_NARROWED,
)
_UNEVALUATED = Kinds(
    Kind.UNEVALUATED_ITEMS_ADDED,
    Kind.UNEVALUATED_ITEMS_REMOVED,
    Kind.UNEVALUATED_ITEMS_EXTENDED,
    Kind.UNEVALUATED_ITEMS_NARROWED,
)


def compare_arrays(comparison: Compares, earlier: Node, later: Node) -> list[Difference]:
    """All differences between two arrays."""
    return [
        *comparison.compare(_of_all(earlier), _of_all(later), "/items"),
        *_placed(comparison, earlier, later),
        *compare_rest(comparison, _ADDITIONAL, _rest_name(earlier, later), earlier, later),
        *compare_unevaluated(comparison, _UNEVALUATED, "unevaluatedItems", earlier, later),
        *compare_limits(_LIMITS, earlier, later),
        *_unique(earlier, later),
    ]


def _rest_name(*nodes: Node) -> str:
    """The keyword for items behind those with a place: from draft 2020-12 on it is `items`, after `prefixItems`."""
    return "items" if any("prefixItems" in node.values for node in nodes) else "additionalItems"


def _of_all(node: Node) -> Node | None:
    """What every item must fit."""
    given = node.values.get("items")
    if given is None or isinstance(given, list) or "prefixItems" in node.values:
        return None
    return node.document.node(given, node.base)


def _with_place(node: Node) -> list[Node]:
    given = node.values.get("prefixItems", node.values.get("items"))
    return [node.document.node(each, node.base) for each in given] if isinstance(given, list) else []


def _is_open(node: Node) -> bool:
    allowed, schema = rest_of(node, _rest_name(node))
    others = unevaluated(node, "unevaluatedItems")
    return allowed and schema is None and (others is None or others.kind in (ANYTHING, TRUE))


def _partly(node: Node) -> Node | None:
    """The schema that an item behind those with a place must fit, in an array that is neither open nor closed."""
    allowed, schema = rest_of(node, _rest_name(node))
    if schema is not None:
        return schema
    others = unevaluated(node, "unevaluatedItems")
    is_schema = others is not None and others.kind not in (ANYTHING, TRUE, FALSE)
    return others if allowed and is_schema else None


def _placed(comparison: Compares, earlier: Node, later: Node) -> Iterator[Difference]:
    before, after = _with_place(earlier), _with_place(later)
    common = min(len(before), len(after))
    for at in range(common):
        yield from comparison.compare(before[at], after[at], f"/items/{at}")
    for at in range(common, len(before)):
        yield from _removed(comparison, before[at], later, f"/items/{at}")
    for at in range(common, len(after)):
        yield from _added(comparison, earlier, after[at], f"/items/{at}")


def _removed(comparison: Compares, schema: Node, later: Node, path: str) -> Iterator[Difference]:
    rest = _partly(later)
    if _is_open(later):
        yield Difference(Kind.ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL, path)
    elif rest is not None:
        found = comparison.compare(schema, rest, path)
        yield from found
        covered = comparison.fits(found)
        yield Difference(
            Kind.ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
            if covered
            else Kind.ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
            path,
        )
    elif schema.kind == FALSE:
        yield Difference(Kind.ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL, path)
    else:
        yield Difference(Kind.ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL, path)


def _added(comparison: Compares, earlier: Node, schema: Node, path: str) -> Iterator[Difference]:
    rest = _partly(earlier)
    if _is_open(earlier):
        is_empty = schema.kind in (ANYTHING, TRUE)
        yield Difference(
            Kind.ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL
            if is_empty
            else Kind.ITEM_ADDED_TO_OPEN_CONTENT_MODEL,
            path,
        )
    elif rest is not None:
        found = comparison.compare(rest, schema, path)
        yield from found
        covered = comparison.fits(found)
        yield Difference(
            Kind.ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
            if covered
            else Kind.ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
            path,
        )
    else:
        yield Difference(Kind.ITEM_ADDED_TO_CLOSED_CONTENT_MODEL, path)


def _unique(earlier: Node, later: Node) -> Iterator[Difference]:
    before, after = (node.values.get("uniqueItems") is True for node in (earlier, later))
    if before != after:
        yield Difference(Kind.UNIQUE_ITEMS_REMOVED if before else Kind.UNIQUE_ITEMS_ADDED, "/uniqueItems")
