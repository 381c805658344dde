"""Avro's resolution by the specification's cases, and what each level compares with what, for every kind."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.registry.errors import RegistryError
from broker.registry.formats import avro, json_schema
from broker.registry.formats.parsed import STRICT, Given, Needed, Parsed, Work
from broker.registry.levels import LEVELS, Earlier, problems
from broker.registry.records import Reference
from tests.unit.broker.registry.rig import record

ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}
MORE_ENUM = {**ENUM, "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 4}


def of(kind: Any) -> dict[str, Any]:
    """A record with a field of this type."""
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}


AVRO: list[tuple[Any, Any, bool, bool]] = [
    # the earlier schema, the later one, whether the later reads the earlier, and whether the earlier reads the later
    (record("a:int"), record("a:int", "b:int=1"), True, True),
    (record("a:int"), record("a:int", "b:int"), False, True),
    (record("a:int", "b:int"), record("a:int"), True, False),
    (record("a:int", "b:int=1"), record("a:int"), True, True),
    (of("int"), of("long"), True, False),
    (of("int"), of("float"), True, False),
    (of("long"), of("double"), True, False),
    (of("float"), of("double"), True, False),
    (of("double"), of("float"), False, True),
    (of("string"), of("bytes"), True, True),
    (of("int"), of("string"), False, False),
    (of("int"), of(["null", "int"]), True, False),
    (of(["null", "int"]), of(["null", "int", "string"]), True, False),
    (of(ENUM), of(MORE_ENUM), True, False),
    (of({**MORE_ENUM, "default": "A"}), of({**ENUM, "default": "A"}), True, True),
    (of(FIXED), of({**FIXED, "size": 5}), False, False),
    (of(FIXED), of({**FIXED, "name": "G"}), False, False),
    (of({"type": "array", "items": "int"}), of({"type": "array", "items": "long"}), True, False),
    (of({"type": "map", "values": "int"}), of({"type": "map", "values": "string"}), False, False),
    (record("a:int"), record("a:int", name="S"), False, False),
    (record("a:int"), record("a:int", name="S", aliases=["R"]), True, False),
    (record("a:int", namespace="x"), record("a:int", name="S", namespace="x", aliases=["R"]), True, False),
    (
        record("a:int"),
        {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int", "aliases": ["a"]}]},
        True,
        False,
    ),
    (of({"type": "int", "logicalType": "date"}), of("int"), True, True),
    (
        record("a:int", "b:int"),
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "aliases": ["b"]}]},
        False,
        False,
    ),
]


def avro_of(source: Any) -> Parsed:
    return avro.parse(Given(json.dumps(source)))


@pytest.mark.parametrize(("earlier", "later", "backward", "forward"), AVRO, ids=str)
def test_avro_reads_what_the_specification_says(earlier: Any, later: Any, backward: bool, forward: bool) -> None:
    old, new = avro_of(earlier), avro_of(later)
    assert (new.problems(old, STRICT, Work()) == []) == backward
    assert (old.problems(new, STRICT, Work()) == []) == forward


def test_a_type_within_itself_is_compared_once() -> None:
    tree = {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]}
    assert avro_of(tree).problems(avro_of(tree), STRICT, Work(200)) == []


def test_too_many_alternatives_are_refused_in_bounded_work() -> None:
    def union(name: str) -> Any:
        return of([record(f"{name}{at}:int", name=f"{name}{at}") for at in range(300)])

    with pytest.raises(RegistryError, match="too complex"):
        avro_of(union("x")).problems(avro_of(union("y")), STRICT, Work(20_000))


@pytest.mark.parametrize(
    ("given_text", "text"),
    [
        ('"string"', '"string"'),
        ("string", '"string"'),
        ('{"type": "string"}', '"string"'),
        ('{"type": {"type": "int"}}', '"int"'),
        ('{"type": "string", "avro.java.string": "String"}', '{"type":"string","avro.java.string":"String"}'),
        ('["null", {"type": "int"}]', '["null","int"]'),
        (
            '{"fields": [{"type": "int", "name": "a", "doc": "d", "default": 1, "order": "ascending", "x": 1}],'
            ' "name": "n.R", "type": "record", "doc": "D", "aliases": ["Q", "m.P"], "p": {"b": 1}}',
            '{"type":"record","name":"R","namespace":"n","doc":"D","fields":[{"name":"a","type":"int","doc":"d",'
            '"default":1,"x":1}],"p":{"b":1},"aliases":["Q","m.P"]}',
        ),
        (
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"fixed","name":"F",'
            '"namespace":"n","size":2}},{"name":"b","type":"n.F"}]}',
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"fixed","name":"F",'
            '"size":2}},{"name":"b","type":"F"}]}',
        ),
    ],
)
def test_texts_are_kept_as_java_writes_them(given_text: str, text: str) -> None:
    found = avro.parse(Given(given_text))
    assert found.text == text
    assert avro.parse(Given(found.text)).text == text
    assert avro.parse(Given(found.normalized())).normalized() == found.normalized()


def test_references_may_be_written_into_the_schema() -> None:
    user = Needed("User", json.dumps(record("a:int", name="User", namespace="t")), Reference("User", "u", 1))
    order = of("t.User") | {"name": "Order"}
    found = avro.parse(Given(json.dumps(order), (user.reference,), (user,)))
    resolved = found.formatted("resolved")
    assert avro.parse(Given(resolved)).text == resolved
    assert '"name":"User","namespace":"t"' in resolved


@pytest.mark.parametrize(
    "wrong",
    [
        *("{", "[", "5", "null null", '{"type": "strange"}', '{"type": "record", "name": "R"}', '{"type": "array"}'),
        '{"type": "enum", "name": "E", "symbols": "A"}',
        '{"type": "enum", "name": "E", "symbols": ["A", "A"]}',
        '{"type": "record", "name": "a-b", "fields": []}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
        '["int", "int"]',
        '[{"type": "fixed", "name": "F", "size": 1}, "F"]',
        '{"type": "fixed", "name": "F", "size": "x"}',
        '{"type": "record", "name": "R", "fields": [5]}',
        "[" * 300 + "]" * 300,
    ],
)
def test_what_is_no_schema_is_refused(wrong: str) -> None:
    with pytest.raises(RegistryError):
        avro.parse(Given(wrong))


# -- levels


def check(level: str, kind: str, new: Parsed, earlier: list[Parsed]) -> bool:
    listed = [Earlier(at, kind, lambda parsed=parsed: parsed) for at, parsed in enumerate(earlier, 1)]  # type: ignore[misc]
    return problems(level, STRICT, kind, new, listed, Work()) == []


OLD, MIDDLE, NEW = record("a:int"), record("a:int", "b:int=1"), record("a:int", "b:int")


@pytest.mark.parametrize(
    ("level", "later", "fits"),
    [
        ("NONE", record("c:int"), True),
        ("BACKWARD", NEW, True),  # the latest has `b`
        ("BACKWARD_TRANSITIVE", NEW, False),  # the first has not
        ("FORWARD", OLD, True),
        ("FORWARD", record("c:int"), False),
        ("FORWARD_TRANSITIVE", record("b:int"), False),
        ("FULL", record("a:int", "c:int=1"), True),
        ("FULL", NEW, True),
        ("FULL_TRANSITIVE", NEW, False),
    ],
)
def test_a_level_compares_with_the_latest_or_all(level: str, later: Any, fits: bool) -> None:
    assert check(level, "AVRO", avro_of(later), [avro_of(OLD), avro_of(MIDDLE)]) == fits


def test_another_kind_never_fits_but_without_a_level() -> None:
    earlier = [Earlier(1, "JSON", lambda: json_schema.parse(Given("{}")))]
    for level in LEVELS:
        found = problems(level, STRICT, "AVRO", avro_of("int"), earlier, Work())
        assert (found == []) == (level == "NONE")


avro_schemas = st.lists(
    st.sampled_from(["a:int", "a:long", "b:int", "b:int=1", "c:string", 'c:string="x"', "d:float=1.0"]),
    max_size=4,
    unique_by=lambda field: field[0],
).map(lambda fields: record(*fields, "z:int=0"))
json_parts = st.recursive(
    st.sampled_from(
        [
            {"type": "integer"},
            {"type": "number"},
            {"type": "string", "maxLength": 5},
            {"type": "string"},
            {},
            True,
            False,
        ]
    ),
    lambda inner: st.one_of(
        st.builds(
            lambda properties, is_open, required: {
                "type": "object",
                "properties": properties,
                "additionalProperties": is_open,
                **({"required": ["a"]} if required else {}),
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.booleans(),
            st.booleans(),
        ),
        st.builds(
            lambda name, parts: {name: parts},
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.builds(lambda part: {"type": "array", "items": part}, inner),
    ),
    max_leaves=6,
)


@cache
def parsed(kind: str, text: str) -> Parsed:
    return avro.parse(Given(text)) if kind == "AVRO" else json_schema.parse(Given(text))


@pytest.mark.long
@pytest.mark.parametrize(("kind", "schemas"), [("AVRO", avro_schemas), ("JSON", json_parts)], ids=["avro", "json"])
def test_full_is_both_and_transitive_implies_the_plain_level(kind: str, schemas: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=150, deadline=None)
    @given(schemas, st.lists(schemas, min_size=1, max_size=3))
    def holds(later: Any, before: list[Any]) -> None:
        new = parsed(kind, json.dumps(later))
        earlier = [parsed(kind, json.dumps(source)) for source in before]
        answer = {level: check(level, kind, new, earlier) for level in LEVELS}
        assert answer["NONE"]
        for end in ("", "_TRANSITIVE"):
            assert answer[f"FULL{end}"] == (answer[f"BACKWARD{end}"] and answer[f"FORWARD{end}"])
        for level in ("BACKWARD", "FORWARD", "FULL"):
            assert answer[level] or not answer[f"{level}_TRANSITIVE"]
            assert check(f"{level}_TRANSITIVE", kind, new, earlier) == all(
                check(level, kind, new, [one]) for one in earlier
            )
        assert check("FULL_TRANSITIVE", kind, new, [new])

    holds()
