"""How a message is declared: as a frozen dataclass with the class attributes of kio's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader as OldResponseHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType

T = TypeVar("T")
_NO_DEFAULT: Any = object()


def of(kind: str, default: Any = _NO_DEFAULT) -> Any:
    """A field of one of kio's kinds."""
    metadata = {"kafka_type": kind}
    return field(metadata=metadata) if default is _NO_DEFAULT else field(metadata=metadata, default=default)


def tagged(tag: int, kind: str | None, default: Any) -> Any:
    """A tagged field; without a kind, of other messages."""
    return field(metadata={"tag": tag} if kind is None else {"kafka_type": kind, "tag": tag}, default=default)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(of, tagged, field))
def request(key: int, version: int, *, nested: bool = False) -> Callable[[type[T]], type[T]]:
    return _declared(key, version, EntityType.nested if nested else EntityType.request, RequestHeader)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(of, tagged, field))
def response(key: int, version: int, *, nested: bool = False, old_header: bool = False) -> Callable[[type[T]], type[T]]:
    """`old_header`: header version 0, as ApiVersions has it."""
    header = OldResponseHeader if old_header else ResponseHeader
    return _declared(key, version, EntityType.nested if nested else EntityType.response, header)


def _declared(key: int, version: int, kind: EntityType, header: type[Any]) -> Callable[[type[T]], type[T]]:
    def declare(cls: type[T]) -> type[T]:
        cls.__annotations__ = get_type_hints(cls)  # as kio's classes have them
        made: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        made.__type__ = kind
        made.__version__ = version
        made.__flexible__ = True
        made.__api_key__ = key
        made.__header_schema__ = header
        return made  # type: ignore[no-any-return]

    return declare
