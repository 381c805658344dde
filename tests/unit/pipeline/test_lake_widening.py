"""The one type of a column that values of several schemas come to."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from odradek_pipeline.lake.widening import NoColumn, grown, union

INT, LONG, FLOAT, DOUBLE, TEXT = T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType(), T.StringType()
LEAVES = st.sampled_from([INT, LONG, DOUBLE, T.ShortType()])


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def structs(inner: st.SearchStrategy[T.DataType]) -> st.SearchStrategy[T.StructType]:
    names = st.sampled_from(["a", "b", "c"])
    return st.dictionaries(names, inner, min_size=1, max_size=3).map(lambda fields: struct(**fields))


# One shape for each name, so that any two fit: only numbers and the fields that are there differ.
def shaped(leaves: st.SearchStrategy[T.DataType]) -> st.SearchStrategy[T.StructType]:
    deep = structs(leaves)
    fields = {"n": leaves, "s": deep, "l": deep.map(T.ArrayType), "m": leaves.map(lambda k: T.MapType(TEXT, k))}
    whole = st.fixed_dictionaries({}, optional=fields).filter(bool)
    return whole.map(lambda given: struct(**given))


@given(shaped(LEAVES), shaped(LEAVES))
def test_a_union_has_all_fields_and_takes_both_again_without_change(one: T.StructType, two: T.StructType) -> None:
    both = union(one, two)
    assert isinstance(both, T.StructType)
    assert {field.name for field in both.fields} == {field.name for field in (*one.fields, *two.fields)}
    assert both.names[: len(one.names)] == one.names, "what is there keeps its place"
    assert union(both, one, "delta") == both == union(both, two, "delta"), "a table that has it takes both as they are"


@given(shaped(LEAVES), shaped(LEAVES), shaped(LEAVES))
def test_unions_do_not_depend_on_the_order_but_for_the_order_of_fields(
    one: T.StructType, two: T.StructType, three: T.StructType
) -> None:
    left, right = union(union(one, two), three), union(union(three, two), one)
    assert ordered(left) == ordered(right)
    assert union(one, one) == one


def ordered(kind: T.DataType) -> T.DataType:
    match kind:
        case T.StructType():
            fields = sorted(kind.fields, key=lambda field: field.name)
            return T.StructType([T.StructField(field.name, ordered(field.dataType)) for field in fields])
        case T.ArrayType():
            return T.ArrayType(ordered(kind.elementType))
        case T.MapType():
            return T.MapType(TEXT, ordered(kind.valueType))
    return kind


@pytest.mark.parametrize(
    ("there", "new", "before", "iceberg", "delta"),
    [
        (INT, LONG, LONG, LONG, None),
        (LONG, INT, LONG, LONG, LONG),
        (INT, DOUBLE, DOUBLE, None, None),
        (DOUBLE, LONG, DOUBLE, DOUBLE, DOUBLE),
        (FLOAT, DOUBLE, DOUBLE, DOUBLE, None),
        (FLOAT, LONG, DOUBLE, DOUBLE, None),
        (T.DecimalType(9, 2), T.DecimalType(12, 2), T.DecimalType(12, 2), T.DecimalType(12, 2), None),
        (T.DecimalType(9, 2), T.DecimalType(9, 3), T.DecimalType(10, 3), None, None),
        (T.DecimalType(12, 2), T.DecimalType(9, 1), T.DecimalType(12, 2), T.DecimalType(12, 2), T.DecimalType(12, 2)),
        (T.DecimalType(38, 0), T.DecimalType(38, 38), None, None, None),
        (INT, TEXT, None, None, None),
        (T.DateType(), T.TimestampType(), None, None, None),
        (TEXT, T.BinaryType(), None, None, None),
        (T.ArrayType(INT), INT, None, None, None),
    ],
    ids=lambda one: one.simpleString() if isinstance(one, T.DataType) else str(one),
)
def test_types_widen_where_every_reader_can(
    there: T.DataType,
    new: T.DataType,
    before: T.DataType | None,
    iceberg: T.DataType | None,
    delta: T.DataType | None,
) -> None:
    """Before there is a table, in a table of Iceberg, and in one of Delta."""
    for table_format, expected in ((None, before), ("iceberg", iceberg), ("delta", delta)):
        columns = struct(x=T.ArrayType(struct(y=there))), struct(x=T.ArrayType(struct(y=new)))
        if expected is None:
            with pytest.raises(NoColumn, match=r"field value\.x(\.y)? is .* cannot become"):
                union(*columns, table_format)
        else:
            assert union(*columns, table_format) == struct(x=T.ArrayType(struct(y=expected)))


def test_names_that_differ_in_case_are_one_field() -> None:
    assert union(struct(Id=LONG), struct(ID=INT, x=TEXT), "delta") == struct(Id=LONG, x=TEXT)


def test_an_inferred_schema_grows_by_fields_and_keeps_types_that_cannot_widen() -> None:
    before = struct(n=LONG, s=struct(x=INT), l=T.ArrayType(struct(y=TEXT)), gone=TEXT)
    now = struct(N=DOUBLE, s=struct(x=LONG, z=TEXT), l=T.ArrayType(struct(w=LONG)), new=T.BooleanType())
    lines = T.ArrayType(struct(y=TEXT, w=LONG))
    rest = {"l": lines, "gone": TEXT, "new": T.BooleanType()}
    assert grown(before, now, "iceberg") == struct(n=LONG, s=struct(x=LONG, z=TEXT), **rest)
    assert grown(before, now, "delta") == struct(n=LONG, s=struct(x=INT, z=TEXT), **rest)
    assert grown(before, struct(n=LONG, s=TEXT), "delta") == before
