"""How the messages of this package are declared: as `protocol.declared` says, with what kio's have besides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

from kio.schema import errors
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader as OldResponseHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType

from ..declared import entity
from ..schema import field_plans

T = TypeVar("T")

ErrorCode = Annotated[errors.ErrorCode, "error_code"]
Milliseconds = Annotated[timedelta, "timedelta_i32"]


@dataclass_transform(frozen_default=True, kw_only_default=True)
def request(key: int, version: int, *, nested: bool = False) -> Callable[[type[T]], type[T]]:
    """Declare a request, or a part of one."""
    return _message(key, version, EntityType.nested if nested else EntityType.request, RequestHeader)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def response(key: int, version: int, *, nested: bool = False, old_header: bool = False) -> Callable[[type[T]], type[T]]:
    """Declare a response, or a part of one. `old_header`: header version 0, as ApiVersions has it."""
    header = OldResponseHeader if old_header else ResponseHeader
    return _message(key, version, EntityType.nested if nested else EntityType.response, header)


def _message(key: int, version: int, kind: EntityType, header: type[Any]) -> Callable[[type[T]], type[T]]:
    def declare(cls: type[T]) -> type[T]:
        made: Any = entity(cls, api_key=key, version=version)
        made.__type__, made.__header_schema__ = kind, header
        plans, hints = field_plans(made), get_type_hints(made)
        for each, plan in zip(fields(made), plans, strict=True):  # kio takes no names of types
            marks = {"kafka_type": plan.kind or None, "tag": plan.tag}
            each.type = hints[each.name]
            each.metadata = MappingProxyType({name: mark for name, mark in marks.items() if mark is not None})
        return made  # type: ignore[no-any-return]

    return declare


def by_id(message: type[Any], topic: type[Any]) -> type[Any]:
    """The message as versions have it in which topics have ids alone; `topic` is what its topics are, with names."""
    return _changed(message, topics=tuple[_changed(topic, name=None), ...])  # type: ignore[misc]


def _changed(cls: type[Any], **changes: Any) -> type[Any]:
    """The declared class with other types of some fields; None for those that it lacks."""
    hints = {**get_type_hints(cls, include_extras=True), **changes}
    kept = {name: hint for name, hint in hints.items() if hint is not None}
    defaults = {each.name: each.default for each in fields(cls) if each.default is not MISSING and each.name in kept}
    again = type(cls.__name__, (), {"__annotations__": kept, "__module__": cls.__module__, **defaults})
    return _message(cls.__api_key__, cls.__version__, cls.__type__, cls.__header_schema__)(again)
