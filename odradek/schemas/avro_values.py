"""A value as somebody writes it in JSON, as a value that Avro's library takes by a schema.

In JSON bytes are a text with a character for each byte (Avro's own encoding in JSON), decimals and dates are texts. A
branch of a union may be named, as Avro's encoding does, `{"string": "a"}`, or be chosen by the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from .errors import SchemaError

PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_TIMES: Mapping[str, Callable[[str], Any]] = {
    "timestamp-millis": datetime.fromisoformat,
    "timestamp-micros": datetime.fromisoformat,
    "local-timestamp-millis": datetime.fromisoformat,
    "local-timestamp-micros": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time-millis": time.fromisoformat,
    "time-micros": time.fromisoformat,
}
_RANGES = {"int": 31, "long": 63}


def datum(schema: Any, value: Any, names: Mapping[str, Any], at: str = "the value") -> Any:
    """The value for the library. Raises SchemaError, with the place, if it is not of the schema."""
    if isinstance(schema, str) and schema in names:
        schema = names[schema]
    if isinstance(schema, list):
        return _branch(schema, value, names, at)
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    if not isinstance(kind, str) or kind in names:
        return datum(kind, value, names, at)
    if isinstance(schema, Mapping) and "logicalType" in schema:
        value = _logical(schema["logicalType"], value, at)
    match kind:
        case "record" | "error":
            return _record(schema, _of_type(value, Mapping, "an object", at), names, at)
        case "array":
            items = _of_type(value, list | tuple, "a list", at)
            return [datum(schema["items"], each, names, f"{at}[{number}]") for number, each in enumerate(items)]
        case "map":
            content = _of_type(value, Mapping, "an object", at)
            return {name: datum(schema["values"], each, names, f"{at}.{name}") for name, each in content.items()}
        case "enum" if value not in schema["symbols"]:
            raise _wrong(value, f"one of {', '.join(schema['symbols'])}", at)
        case "bytes" | "fixed" if isinstance(value, str):
            value = _bytes(value, at)
    if kind == "fixed" and isinstance(value, bytes) and len(value) != schema["size"]:
        raise _wrong(value, f"{schema['size']} bytes", at)
    return _primitive(kind, value, at)


def _record(schema: Any, value: Mapping[str, Any], names: Mapping[str, Any], at: str) -> dict[str, Any]:
    known = {field["name"]: field for field in schema["fields"]}
    for name in value:
        if name not in known:
            raise SchemaError(f"does not fit the schema: {at} has no field {name}: expected {', '.join(known)}")
    for name, field in known.items():
        if name not in value and "default" not in field:
            raise SchemaError(f"does not fit the schema: {at} lacks the field {name}, which has no default")
    return {name: datum(known[name]["type"], each, names, _below(at, name)) for name, each in value.items()}


def _below(at: str, name: str) -> str:
    return name if at == "the value" else f"{at}.{name}"


def _branch(union: list[Any], value: Any, names: Mapping[str, Any], at: str) -> Any:
    """The value by the first branch that takes it; of a named type with the name, so that the library takes that."""
    reasons = []
    for branch in union:
        try:
            found = datum(branch, value, names, at)
        except SchemaError as error:
            reasons.append(str(error))
            continue
        return (_name(branch), found) if isinstance(found, dict) and _is_record(branch, names) else found
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, inner),) = value.items()
        for branch in union:
            if _name(branch) == name or _name(branch).rpartition(".")[2] == name:
                return datum([branch], inner, names, at)
    others = [reason for reason, branch in zip(reasons, union, strict=True) if branch != "null"]
    if len(others) == 1 and value is not None:
        raise SchemaError(others[0])
    raise _wrong(value, f"one of {', '.join(map(_name, union))}", at)


def _is_record(branch: Any, names: Mapping[str, Any]) -> bool:
    found = names.get(branch, {}) if isinstance(branch, str) else branch
    return isinstance(found, Mapping) and found.get("type") in ("record", "error")


def _name(branch: Any) -> str:
    return branch if isinstance(branch, str) else str(branch.get("name", branch.get("type")))


def _logical(logical: str, value: Any, at: str) -> Any:
    try:
        if logical in _TIMES and isinstance(value, str):
            return _TIMES[logical](value)
        if logical == "decimal" and isinstance(value, str | int | float) and not isinstance(value, bool):
            return Decimal(str(value))
    except (ValueError, InvalidOperation) as error:
        raise _wrong(value, f"a {logical} in its usual form", at) from error
    return str(value) if logical == "uuid" else value


def _bytes(value: str, at: str) -> bytes:
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError as error:
        raise _wrong(value, "a text with a character from U+0000 to U+00FF for each byte", at) from error


def _primitive(kind: str, value: Any, at: str) -> Any:
    match kind:
        case "null":
            fits = value is None
        case "boolean":
            fits = isinstance(value, bool)
        case "int" | "long":
            is_number = isinstance(value, int) and not isinstance(value, bool)
            most = 1 << _RANGES[kind]
            fits = (-most <= value < most) if is_number else isinstance(value, datetime | date | time)
        case "float" | "double":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        case "bytes" | "fixed":
            fits = isinstance(value, bytes | bytearray | Decimal)
        case "string":
            fits = isinstance(value, str)
        case _:
            fits = True
    if not fits:
        raise _wrong(value, kind, at)
    return value


def _of_type(value: Any, kind: Any, name: str, at: str) -> Any:
    if not isinstance(value, kind):
        raise _wrong(value, name, at)
    return value


def _wrong(value: Any, expected: str, at: str) -> SchemaError:
    return SchemaError(f"does not fit the schema: {at} = {repr(value)[:100]}: expected {expected}")
