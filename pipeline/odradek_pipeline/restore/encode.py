"""Parsed values as JSON again, compact, with the fields that are not null: what they mean, not what they were."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa


def encoder(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """From a column of structs of this type to one of bytes; null stays null, a tombstone."""
    text = _writer(kind)

    def encode(cells: pa.Array) -> pa.Array:
        return pa.array([None if cell is None else text(cell).encode() for cell in cells.to_pylist()], pa.binary())

    return encode


def _writer(kind: pa.DataType) -> Callable[[Any], str]:
    """From a cell, which is not null, to its JSON."""
    if pa.types.is_struct(kind):
        parts = [(part.name, json.dumps(part.name), _writer(part.type)) for part in kind.fields]
        return lambda cell: _object((key, text(cell[name])) for name, key, text in parts if cell[name] is not None)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _or_null(_writer(kind.value_type))
        return lambda cell: f"[{','.join(map(inner, cell))}]"
    if pa.types.is_map(kind):
        inner = _or_null(_writer(kind.item_type))
        return lambda cell: _object((json.dumps(key), inner(one)) for key, one in cell)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda cell: f'"{base64.b64encode(cell).decode()}"'
    return _scalar


def _object(pairs: Any) -> str:
    return f"{{{','.join(f'{key}:{text}' for key, text in pairs)}}}"


def _or_null(text: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda cell: "null" if cell is None else text(cell)


def _scalar(cell: Any) -> str:
    match cell:
        case Decimal():
            return format(cell, "f")
        case float() if math.isinf(cell):
            return "1e999" if cell > 0 else "-1e999"  # JSON has no infinity: such a number is read as one
        case float() if math.isnan(cell):
            return "null"
        case date():  # and times, which are dates too
            return f'"{cell.isoformat()}"'
    return json.dumps(cell, ensure_ascii=False)
