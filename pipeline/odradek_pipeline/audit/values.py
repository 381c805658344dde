"""Parsed values: JSON in the topic against a struct in the table, as Spark's `from_json` makes one of the other.

Both become plain Python values of the table's type, of which the print is taken. What can be written in JSON in a way
that only Spark's own parser decides (a time that is not ISO 8601, a field of another type) is UNSURE: never a
difference, and counted.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from odradek_pipeline.audit.prints import NULL, UNSURE, Prints

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)


class Unsure(Exception):  # noqa: N818
    """Nothing can be said about how Spark reads this."""


class ParsedValues:
    """Prints of a column of values and of the table's column for them."""

    def __init__(self, kind: pa.DataType) -> None:
        self._plain = _plain_type(kind)
        self._load = _loader(kind)
        self._normal = _normal(kind)

    def of_topic(self, cells: pa.Array) -> Prints:
        """UNSURE for what is no JSON, or does not become the table's type for certain."""
        return self._prints(cells.to_pylist(), self._parsed)

    def of_table(self, cells: pa.Array) -> Prints:
        """The prints of the table's values."""
        for kind in self._plain:
            cells = cells.cast(kind, safe=False)
        return self._prints(cells.to_pylist(), self._normal)

    def _parsed(self, value: bytes) -> Any:
        try:
            found = json.loads(value, parse_float=Decimal)
        except (ValueError, RecursionError) as error:
            raise Unsure from error
        return None if found is None else self._load(found)

    @staticmethod
    def _prints(values: list[Any], convert: Callable[[Any], Any]) -> Prints:
        out = np.full(len(values), NULL)
        for at, value in enumerate(values):
            if value is None:
                continue
            try:
                plain = convert(value)
            except Unsure:
                out[at] = UNSURE
                continue
            if plain is not None:
                out[at] = xxh3_64_intdigest(repr(plain).encode("utf-8", "surrogatepass")) or 1
        return out


def _plain_type(kind: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    """The type with times in microseconds, and then as numbers: Python's own times would be slow, and end in 9999."""
    return _with_times(kind, in_micros=True), _with_times(kind, in_micros=False)


def _with_times(kind: pa.DataType, *, in_micros: bool) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if in_micros else pa.int64()
    if pa.types.is_date32(kind):
        return kind if in_micros else pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _with_times(part.type, in_micros=in_micros)) for part in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(_with_times(kind.value_type, in_micros=in_micros))
    if pa.types.is_large_list(kind):
        return pa.large_list(_with_times(kind.value_type, in_micros=in_micros))
    return kind


def _normal(kind: pa.DataType) -> Callable[[Any], Any]:
    """From a cell of a plain type to what is compared: structs as tuples, maps as sorted pairs."""
    if pa.types.is_struct(kind):
        parts = [(part.name, _maybe(_normal(part.type))) for part in kind.fields]
        return lambda value: tuple(convert(value[name]) for name, convert in parts)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _maybe(_normal(kind.value_type))
        return lambda value: [inner(item) for item in value]
    if pa.types.is_map(kind):
        inner = _maybe(_normal(kind.item_type))
        return lambda value: sorted((key, inner(item)) for key, item in value)
    return lambda value: value


def _maybe(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _loader(kind: pa.DataType) -> Callable[[Any], Any]:
    """From JSON to what `_normal` makes of the table's cell. Raises Unsure."""
    if pa.types.is_struct(kind):
        return _struct_loader(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _maybe(_loader(kind.value_type))
        return lambda value: [inner(item) for item in _of(list, value)]
    if pa.types.is_map(kind):
        inner = _maybe(_loader(kind.item_type))
        return lambda value: sorted((key, inner(item)) for key, item in _of(dict, value).items())
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind.scale)
    for known, load in _LOADERS:
        if known(kind):
            return load
    return _never


def _struct_loader(kind: pa.StructType) -> Callable[[Any], Any]:
    parts = [(part.name, _maybe(_loader(part.type))) for part in kind.fields]

    def load(value: Any) -> Any:
        fields = _of(dict, value)
        return tuple(convert(fields.get(name)) for name, convert in parts)

    return load


def _of(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Unsure
    return value


def _never(_value: Any) -> Any:
    raise Unsure


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Unsure
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _decimal(value: Any, scale: int) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Unsure
    try:
        return Decimal(value).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    except InvalidOperation as error:
        raise Unsure from error


def _text(value: Any) -> str:
    """A STRING takes any JSON: as text, with numbers as Java writes them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return java_double(float(value))
    raise Unsure  # of an object or array Spark keeps the text in its own way


def java_double(number: float) -> str:
    """A double as Java's Double.toString writes it."""
    if number == 0 or not math.isfinite(number):
        raise Unsure
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    if not isinstance(exponent, int):
        raise Unsure
    text = "".join(map(str, digits))
    point = len(text) + exponent  # where it is, counted from the first digit
    if -3 < point <= 7:
        whole = text[:point].ljust(point, "0") if point > 0 else "0"
        rest = text[point:] if point > 0 else "0" * -point + text
        return f"{'-' * sign}{whole}.{rest or '0'}"
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _micros(value: Any) -> int:
    """Text with ISO 8601 (UTC, if it names no zone, as the job's session has it), or seconds as a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1_000_000
    try:
        when = datetime.fromisoformat(_of(str, value))
    except ValueError as error:
        raise Unsure from error
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - EPOCH) // MICRO


def _days(value: Any) -> int:
    try:
        return date.fromisoformat(_of(str, value)).toordinal() - EPOCH.toordinal()
    except ValueError as error:
        raise Unsure from error


def _base64(value: Any) -> bytes:
    try:
        return base64.b64decode(_of(str, value), validate=True)
    except binascii.Error as error:
        raise Unsure from error


def _single(value: Any) -> float:
    return float(np.float32(_float(value)))


_LOADERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_boolean, lambda value: _of(bool, value)),
    (pa.types.is_integer, lambda value: _of(int, value)),
    (pa.types.is_float32, _single),
    (pa.types.is_float64, _float),
    (pa.types.is_timestamp, _micros),
    (pa.types.is_date32, _days),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), _text),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), _base64),
)
