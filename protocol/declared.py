"""How messages are declared that kio has no classes for: the type of a field says what is on the wire.

    class ConsumerGroupMetadataValue(NamedTuple):
        epoch: Int32
        metadata_hash: Annotated[Int64, Placed(tag=0)] = 0

    @record(28)
    class ClearElrRecord:
        topic_name: String = ""

A class serves all versions: `Placed` says which of them have a field, and whether it is a tagged one; `Stored` gives
the type on the wire of a field that is kept as something else. Nested classes are declared likewise, and so are those
that a field is only stored as (`plain`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, TypeVar, dataclass_transform
from uuid import UUID

from .schema import Placed, Stored

__all__ = [
    "Bool",
    "Bytes",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Placed",
    "Stored",
    "String",
    "Uint16",
    "Uuid",
    "entity",
    "plain",
    "record",
]

T = TypeVar("T")

Bool = Annotated[bool, "bool"]
Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
Uint16 = Annotated[int, "uint16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
Float64 = Annotated[float, "float64"]
String = Annotated[str, "string"]
Bytes = Annotated[bytes, "bytes"]
Uuid = Annotated[UUID, "uuid"]
"""None is Kafka's zero id."""


def plain(cls: type[T]) -> type[T]:
    """Say of a named tuple that it is read as a plain tuple: it is nothing but a declaration."""
    made: Any = cls
    made.is_read_as_plain_tuple = True
    return cls


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(api_key: int = -1, highest: int = 0) -> Callable[[type[T]], type[T]]:
    """Declare a record of the metadata log with its API key and the highest version known; or a part of a record."""
    return partial(entity, api_key=api_key, version=highest)


def entity(cls: type[T], *, api_key: int, version: int) -> type[T]:
    """Make a frozen dataclass of the form that kio's have."""
    made: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    made.__api_key__, made.__version__, made.__flexible__ = api_key, version, True
    return made  # type: ignore[no-any-return]
