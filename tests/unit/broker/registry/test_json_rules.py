"""JSON Schema: each difference, whether the later schema takes the data of the earlier one, and nothing besides it.

The names and the judgement are those of Confluent's registry; what stands here was tried by its own cases, too.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.registry.errors import RegistryError
from broker.registry.formats.json_differences import differences
from broker.registry.formats.json_rules import Kind
from broker.registry.formats.json_schema import JsonSchema, parse
from broker.registry.formats.parsed import LENIENT, STRICT, Given, Needed, Work
from broker.registry.records import Reference

INT, TEXT = {"type": "integer"}, {"type": "string"}
ANY: dict[str, Any] = {}


def obj(more: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **(more or {})}


def closed(**properties: Any) -> dict[str, Any]:
    return obj({"additionalProperties": False}, **properties)


def arr(**more: Any) -> dict[str, Any]:
    return {"type": "array", **more}


def text(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


def num(**more: Any) -> dict[str, Any]:
    return {"type": "number", **more}


def moved(make: Any, name: str, base: str) -> list[tuple[str, Any, Any]]:
    """The four rows of a limit."""
    return [
        (f"{base}_ADDED", make(), make(**{name: 5})),
        (f"{base}_REMOVED", make(**{name: 5}), make()),
        (f"{base}_INCREASED", make(**{name: 5}), make(**{name: 6})),
        (f"{base}_DECREASED", make(**{name: 5}), make(**{name: 4})),
    ]


def obj_with(**more: Any) -> dict[str, Any]:
    return {"type": "object", **more}


PARTLY = obj({"additionalProperties": TEXT})
PARTLY_A = obj({"additionalProperties": TEXT}, a=TEXT)
PARTLY_INT = obj({"additionalProperties": TEXT}, a=INT)
DEFAULT = {"type": "integer", "default": 1}

ROWS: list[tuple[str, Any, Any]] = [
    ("ID_CHANGED", text(**{"$id": "a"}), text(**{"$id": "b"})),
    ("DESCRIPTION_CHANGED", text(description="a"), text(description="b")),
    ("TITLE_CHANGED", text(title="a"), text(title="b")),
    ("DEFAULT_CHANGED", text(default="a"), text(default="b")),
    ("SCHEMA_ADDED", arr(), arr(items=TEXT)),
    ("SCHEMA_REMOVED", arr(items=TEXT), arr()),
    ("TYPE_EXTENDED", INT, num()),
    ("TYPE_NARROWED", num(), INT),
    ("TYPE_CHANGED", INT, TEXT),
    *moved(text, "maxLength", "MAX_LENGTH"),
    *moved(text, "minLength", "MIN_LENGTH"),
    ("PATTERN_ADDED", text(), text(pattern="a")),
    ("PATTERN_REMOVED", text(pattern="a"), text()),
    ("PATTERN_CHANGED", text(pattern="a"), text(pattern="b")),
    *moved(num, "maximum", "MAXIMUM"),
    *moved(num, "minimum", "MINIMUM"),
    *moved(num, "exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
    *moved(num, "exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    ("MULTIPLE_OF_ADDED", num(), num(multipleOf=2)),
    ("MULTIPLE_OF_REMOVED", num(multipleOf=2), num()),
    ("MULTIPLE_OF_EXPANDED", num(multipleOf=0.1), num(multipleOf=0.3)),
    ("MULTIPLE_OF_REDUCED", num(multipleOf=6), num(multipleOf=3)),
    ("MULTIPLE_OF_CHANGED", num(multipleOf=6), num(multipleOf=4)),
    ("REQUIRED_ATTRIBUTE_ADDED", obj(a=INT), obj({"required": ["a"]}, a=INT)),
    ("REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED", obj(a=DEFAULT), obj({"required": ["a"]}, a=DEFAULT)),
    ("REQUIRED_ATTRIBUTE_REMOVED", obj({"required": ["a"]}, a=INT), obj(a=INT)),
    ("DEPENDENCY_ARRAY_ADDED", obj_with(), obj_with(dependencies={"a": ["b"]})),
    ("DEPENDENCY_ARRAY_REMOVED", obj_with(dependencies={"a": ["b"]}), obj_with()),
    ("DEPENDENCY_ARRAY_EXTENDED", obj_with(dependencies={"a": ["b"]}), obj_with(dependencies={"a": ["b", "c"]})),
    ("DEPENDENCY_ARRAY_NARROWED", obj_with(dependencies={"a": ["b", "c"]}), obj_with(dependencies={"a": ["b"]})),
    ("DEPENDENCY_ARRAY_CHANGED", obj_with(dependencies={"a": ["b"]}), obj_with(dependencies={"a": ["c"]})),
    ("DEPENDENCY_SCHEMA_ADDED", obj_with(), obj_with(dependencies={"a": TEXT})),
    ("DEPENDENCY_SCHEMA_REMOVED", obj_with(dependencies={"a": TEXT}), obj_with()),
    *moved(obj_with, "maxProperties", "MAX_PROPERTIES"),
    *moved(obj_with, "minProperties", "MIN_PROPERTIES"),
    ("ADDITIONAL_PROPERTIES_ADDED", closed(), obj()),
    ("ADDITIONAL_PROPERTIES_REMOVED", obj(), closed()),
    ("ADDITIONAL_PROPERTIES_EXTENDED", PARTLY, obj()),
    ("ADDITIONAL_PROPERTIES_NARROWED", obj(), PARTLY),
    ("UNEVALUATED_PROPERTIES_ADDED", obj_with(unevaluatedProperties=False), obj_with()),
    ("UNEVALUATED_PROPERTIES_REMOVED", obj_with(), obj_with(unevaluatedProperties=False)),
    ("UNEVALUATED_PROPERTIES_EXTENDED", obj_with(unevaluatedProperties=TEXT), obj_with()),
    ("UNEVALUATED_PROPERTIES_NARROWED", obj_with(), obj_with(unevaluatedProperties=TEXT)),
    ("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", obj(), obj(a=ANY)),
    ("REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", obj(), obj({"required": ["a"]}, a=INT)),
    ("REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL", obj(), obj({"required": ["a"]}, a=DEFAULT)),
    ("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", obj(), obj(a=INT)),
    (
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        closed(),
        obj({"additionalProperties": False, "required": ["a"]}, a=INT),
    ),
    (
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        closed(),
        obj({"additionalProperties": False, "required": ["a"]}, a=DEFAULT),
    ),
    ("OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", closed(), closed(a=INT)),
    ("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", obj(a=INT), obj()),
    ("PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", closed(a=False), closed()),
    ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", closed(a=INT), closed()),
    ("PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", PARTLY, PARTLY_A),
    ("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", PARTLY, PARTLY_INT),
    ("PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", PARTLY_A, PARTLY),
    ("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", PARTLY_INT, PARTLY),
    *moved(arr, "maxItems", "MAX_ITEMS"),
    *moved(arr, "minItems", "MIN_ITEMS"),
    *moved(arr, "maxContains", "MAX_CONTAINS"),
    *moved(arr, "minContains", "MIN_CONTAINS"),
    ("UNIQUE_ITEMS_ADDED", arr(), arr(uniqueItems=True)),
    ("UNIQUE_ITEMS_REMOVED", arr(uniqueItems=True), arr()),
    ("ADDITIONAL_ITEMS_ADDED", arr(items=[TEXT], additionalItems=False), arr(items=[TEXT])),
    ("ADDITIONAL_ITEMS_REMOVED", arr(items=[TEXT]), arr(items=[TEXT], additionalItems=False)),
    ("ADDITIONAL_ITEMS_EXTENDED", arr(items=[TEXT], additionalItems=INT), arr(items=[TEXT])),
    ("ADDITIONAL_ITEMS_NARROWED", arr(items=[TEXT]), arr(items=[TEXT], additionalItems=INT)),
    ("UNEVALUATED_ITEMS_ADDED", arr(unevaluatedItems=False), arr()),
    ("UNEVALUATED_ITEMS_REMOVED", arr(), arr(unevaluatedItems=False)),
    ("UNEVALUATED_ITEMS_EXTENDED", arr(unevaluatedItems=TEXT), arr()),
    ("UNEVALUATED_ITEMS_NARROWED", arr(), arr(unevaluatedItems=TEXT)),
    ("ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", arr(items=[TEXT]), arr(items=[TEXT, ANY])),
    ("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", arr(items=[TEXT]), arr(items=[TEXT, INT])),
    (
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        arr(items=[TEXT], additionalItems=False),
        arr(items=[TEXT, INT], additionalItems=False),
    ),
    ("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", arr(items=[TEXT, INT]), arr(items=[TEXT])),
    (
        "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        arr(items=[TEXT, False], additionalItems=False),
        arr(items=[TEXT], additionalItems=False),
    ),
    (
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        arr(items=[TEXT, INT], additionalItems=False),
        arr(items=[TEXT], additionalItems=False),
    ),
    (
        "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        arr(items=[TEXT], additionalItems=INT),
        arr(items=[TEXT, INT], additionalItems=INT),
    ),
    (
        "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        arr(items=[TEXT], additionalItems=INT),
        arr(items=[TEXT, TEXT], additionalItems=INT),
    ),
    (
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        arr(items=[TEXT, INT], additionalItems=INT),
        arr(items=[TEXT], additionalItems=INT),
    ),
    (
        "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        arr(items=[TEXT, TEXT], additionalItems=INT),
        arr(items=[TEXT], additionalItems=INT),
    ),
    ("ENUM_ARRAY_EXTENDED", {"enum": ["a"]}, {"enum": ["a", "b"]}),
    ("ENUM_ARRAY_NARROWED", {"enum": ["a", "b"]}, {"enum": ["a"]}),
    ("ENUM_ARRAY_CHANGED", {"const": 1}, {"const": True}),
    ("COMBINED_TYPE_EXTENDED", {"allOf": [TEXT, INT]}, {"anyOf": [TEXT, INT]}),
    ("COMBINED_TYPE_CHANGED", {"anyOf": [TEXT, INT]}, {"allOf": [TEXT, INT]}),
    ("COMBINED_TYPE_SUBSCHEMAS_CHANGED", {"anyOf": [TEXT, INT]}, {"anyOf": [TEXT, {"type": "boolean"}]}),
    ("PRODUCT_TYPE_EXTENDED", {"allOf": [TEXT]}, {"allOf": [TEXT, INT]}),
    ("PRODUCT_TYPE_NARROWED", {"allOf": [TEXT, INT]}, {"allOf": [TEXT]}),
    ("SUM_TYPE_EXTENDED", {"oneOf": [TEXT]}, {"oneOf": [TEXT, INT]}),
    ("SUM_TYPE_NARROWED", {"oneOf": [TEXT, INT]}, {"oneOf": [TEXT]}),
    ("NOT_TYPE_EXTENDED", {"not": INT}, {"not": num()}),
    ("NOT_TYPE_NARROWED", {"not": num()}, {"not": INT}),
]


def schema(source: Any, **needed: Any) -> JsonSchema:
    others = [Needed(name, json.dumps(other), Reference(name, name, 1)) for name, other in needed.items()]
    return parse(Given(json.dumps(source), (), tuple(others)))


def kinds(earlier: Any, later: Any, policy: str = STRICT) -> list[str]:
    found = differences(schema(earlier).document.root, schema(later).document.root, policy, Work())
    return [each.kind.name for each in found]


@pytest.mark.parametrize(("kind", "earlier", "later"), ROWS, ids=lambda one: one if isinstance(one, str) else "")
def test_a_difference_is_found_and_judged(kind: str, earlier: Any, later: Any) -> None:
    found = kinds(earlier, later)
    assert kind in found
    others = {"ADDITIONAL_PROPERTIES", "OPTIONAL_PROPERTY", "ADDITIONAL_ITEMS", "TYPE_CHANGED"}  # go along with some
    assert {name for name in found if name != kind and not any(map(name.startswith, others))} == set()
    problems = schema(later).problems(schema(earlier), STRICT, Work())
    assert bool(problems) == (Kind[kind].value.allowed != STRICT)
    if problems:
        assert any(kind in problem for problem in problems)
    assert {*kinds(earlier, earlier), *kinds(later, later)} <= {"NOT_TYPE_NARROWED"}


def test_every_rule_has_a_row() -> None:
    assert {kind.name for kind in Kind} == {row[0] for row in ROWS}


@pytest.mark.parametrize(
    ("earlier", "later", "fits"),
    [
        (obj(), obj(a=INT), True),
        (closed(a=INT), closed(), True),
        (obj(), obj({"required": ["a"]}, a=INT), False),
        (obj(), closed(), True),
        (INT, TEXT, False),
    ],
)
def test_the_lenient_policy_allows_what_breaks_only_properties_without_a_name(
    earlier: Any, later: Any, fits: bool
) -> None:
    assert (schema(later).problems(schema(earlier), LENIENT, Work()) == []) == fits


@pytest.mark.parametrize(
    ("earlier", "later", "fits"),
    [
        (INT, {"type": ["integer", "null"]}, True),
        ({"type": ["integer", "null"]}, INT, False),
        (text(), text(enum=["a"]), False),
        ({"properties": {"a": INT}}, {}, True),
        (False, INT, True),
        ({"connect.type": "bytes", **TEXT}, {"connect.type": "bytes", **num()}, True),
        (obj({"patternProperties": {"^a": TEXT}}), obj({"patternProperties": {"^a": TEXT}}, ab=TEXT), True),
        (obj({"patternProperties": {"^a": TEXT}}), obj({"patternProperties": {"^a": TEXT}}, ab=INT), False),
    ],
)
def test_types_and_combinations(earlier: Any, later: Any, fits: bool) -> None:
    assert (schema(later).problems(schema(earlier), STRICT, Work()) == []) == fits


def tree(value: Any) -> dict[str, Any]:
    return {
        "$ref": "#/definitions/node",
        "definitions": {"node": closed(value=value, next={"$ref": "#/definitions/node"})},
    }


def test_a_schema_may_refer_to_itself() -> None:
    assert kinds(tree(INT), tree(num())) == ["TYPE_EXTENDED"]
    assert "TYPE_CHANGED" in kinds(tree(INT), tree(TEXT))
    assert kinds({"oneOf": [tree(INT)["definitions"]["node"]], **tree(INT)}, tree(INT)) == []


def test_references_are_followed_by_name_and_id_and_nothing_is_fetched() -> None:
    person = {"$id": "http://example.com/person.json", **closed(name=TEXT)}
    for reference in ("person.json", "http://example.com/person.json", "person.json#/properties/name"):
        found = parse(
            Given(
                json.dumps(obj(by={"$ref": reference})),
                (),
                (Needed("person.json", json.dumps(person), Reference("person.json", "p", 1)),),
            )
        )
        assert found.problems(found, STRICT, Work()) == []
    for unknown in ("other.json", "#/definitions/none", "http://example.com/none"):
        with pytest.raises(RegistryError, match=r"unresolved \$ref"):
            schema(obj(by={"$ref": unknown}))
    with pytest.raises(RegistryError, match="refers to itself"):
        schema({"$ref": "#"})


@pytest.mark.parametrize("wrong", ['{"type": "strange"}', '{"type": 5}', "[]", "5", '"a"', '{"required": true}', "{"])
def test_what_is_no_schema_is_refused(wrong: str) -> None:
    with pytest.raises(RegistryError):
        parse(Given(wrong))


def test_normalized_texts_do_not_depend_on_the_order_of_names() -> None:
    one, other = (
        parse(Given('{"type": "object", "a": {"c": 1, "b": 2}}')),
        parse(Given('{"a":{"b":2,"c":1},"type":"object"}')),
    )
    assert one.text != other.text
    assert one.normalized() == other.normalized() == '{"a":{"b":2,"c":1},"type":"object"}'


def test_too_many_alternatives_are_refused_in_bounded_work() -> None:
    many = {"oneOf": [{"oneOf": [{"type": "string", "maxLength": a * 60 + b} for b in range(60)]} for a in range(60)]}
    with pytest.raises(RegistryError, match="too complex"):
        schema(many).problems(schema({**many, "title": "other"}), STRICT, Work(50_000))


def test_a_pattern_that_takes_other_matchers_for_ever_costs_nothing() -> None:
    evil = obj({"patternProperties": {"^(a+)+$": TEXT}})
    name = "a" * 5000 + "b"
    assert (
        schema(obj({"patternProperties": {"^(a+)+$": TEXT}}, **{name: INT})).problems(schema(evil), STRICT, Work())
        == []
    )
