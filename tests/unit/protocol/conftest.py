"""Seeded generation of any of kio's entities, and kio's own encoding to compare with."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from protocol.schema import FieldPlan, field_plans

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class Generator:
    """Makes entities whose strings and arrays straddle the one-byte lengths, with nulls where they are allowed."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(repr(seed))

    def entity(self, cls: Any) -> Any:
        return cls(**{plan.name: self._field(plan) for plan in field_plans(cls)})

    def _field(self, plan: FieldPlan) -> Any:
        if plan.tag is not None and self.random.random() < 0.4:
            return plan.default
        if plan.tag is None and plan.nullable and self.random.random() < 0.3:
            return None
        if not plan.array:
            return self._value(plan)
        longest = 3 if plan.entity or self.random.random() < 0.9 else 140
        return tuple(self._value(plan) for _ in range(self.random.randint(0, longest)))

    def _value(self, plan: FieldPlan) -> Any:
        rng = self.random
        if plan.entity is not None:
            return self.entity(plan.entity)
        if plan.kind in BITS:
            bits = BITS[plan.kind]
            return rng.choice([0, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), rng.randrange(2 ** (bits - 1))])
        match plan.kind:
            case "string":
                return "".join(rng.choices("abcé€-._1", k=rng.choice([0, 1, 7, 60, 126, 127, 128, 300])))
            case "bytes" | "records":
                return rng.randbytes(rng.choice([0, 1, 126, 127, 128, 1500, 20_000]))
            case "uuid":
                return rng.choice([None, UUID(int=rng.getrandbits(128))])
            case "bool":
                return rng.random() < 0.5
            case "uint16":
                return rng.choice([0, 9092, 2**16 - 1])
            case "float64":
                return rng.choice([0.0, -1.5, rng.random()])
            case "error_code":
                return rng.choice(list(ErrorCode))
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=rng.randrange(2**31))
            case "datetime_i64":
                return datetime.fromtimestamp(rng.randrange(2**32), UTC)
        raise NotImplementedError(plan.kind)


@pytest.fixture
def generator() -> Callable[[object], Generator]:
    return Generator


@pytest.fixture
def kio_bytes() -> Callable[[Any], bytes]:
    def encode(entity: Any) -> bytes:
        buffer = io.BytesIO()
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()

    return encode
