"""How a record of `__cluster_metadata` is declared: as a frozen dataclass of the form that kio's messages have.

One class serves all versions of a record. A field says with `since` which version brought it; `at_version` makes the
class of an older version, which has the older fields alone, so that the generators of `protocol.reader` and
`protocol.writer` can read and write it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from functools import cache
from types import GenericAlias
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from ..schema import EntityClass, field_plans

T = TypeVar("T")

_FORM: dict[str, Any] = {"frozen": True, "slots": True, "kw_only": True}


def _declared(kind: str, default: Any, since: int, tag: int | None, *, shown: bool = True) -> Any:
    metadata: dict[str, Any] = {"since": since}
    if kind:
        metadata["kafka_type"] = kind
    if tag is not None:
        metadata["tag"] = tag
    return field(default=default, repr=shown, metadata=metadata)


# Every field has a default, for messages that lack it. One that is declared without is to be given when a record is
# made: type checkers insist on it.


def boolean(*, default: bool = False, since: int = 0, tag: int | None = None) -> Any:
    return _declared("bool", default, since, tag)


def int8(*, default: int = 0, since: int = 0, tag: int | None = None) -> Any:
    return _declared("int8", default, since, tag)


def int16(*, default: int = 0, since: int = 0, tag: int | None = None) -> Any:
    return _declared("int16", default, since, tag)


def uint16(*, default: int = 0, since: int = 0, tag: int | None = None) -> Any:
    return _declared("uint16", default, since, tag)


def int32(*, default: int = 0, since: int = 0, tag: int | None = None) -> Any:
    return _declared("int32", default, since, tag)


def int64(*, default: int = 0, since: int = 0, tag: int | None = None) -> Any:
    return _declared("int64", default, since, tag)


def float64(*, default: float = 0.0, since: int = 0, tag: int | None = None) -> Any:
    return _declared("float64", default, since, tag)


def string(*, default: str | None = "", since: int = 0, tag: int | None = None) -> Any:
    return _declared("string", default, since, tag)


def bytestring(*, default: bytes = b"", since: int = 0, tag: int | None = None) -> Any:
    """Bytes, which are not shown when the record is printed: all that there are belong to credentials."""
    return _declared("bytes", default, since, tag, shown=False)


def uuid(*, default: None = None, since: int = 0, tag: int | None = None) -> Any:
    """A UUID; None is Kafka's zero id."""
    return _declared("uuid", default, since, tag)


def int32_array(*, default: tuple[int, ...] | None = (), since: int = 0, tag: int | None = None) -> Any:
    return _declared("int32", default, since, tag)


def string_array(*, default: tuple[str, ...] | None = (), since: int = 0, tag: int | None = None) -> Any:
    return _declared("string", default, since, tag)


def uuid_array(*, default: tuple[()] | None = (), since: int = 0, tag: int | None = None) -> Any:
    return _declared("uuid", default, since, tag)


def entities(*, since: int = 0, tag: int | None = None) -> Any:
    """An array of nested entities."""
    return _declared("", (), since, tag)


def entity(*, default: Any = MISSING, since: int = 0) -> Any:
    """One nested entity."""
    return _declared("", default, since, None)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(
        boolean,
        int8,
        int16,
        uint16,
        int32,
        int64,
        float64,
        string,
        bytestring,
        uuid,
        int32_array,
        string_array,
        uuid_array,
        entities,
        entity,
    ),
)
def metadata_record(api_key: int = -1, highest: int = 0) -> Callable[[type[T]], type[T]]:
    """Declare a record with its API key and the highest version known; or, without them, a part of a record."""

    def declare(cls: type[T]) -> type[T]:
        made = dataclass(**_FORM)(cls)
        _say(made, api_key, highest)
        return made

    return declare


def _say(cls: EntityClass, api_key: int, version: int) -> None:
    cls.__api_key__, cls.__version__, cls.__flexible__ = api_key, version, True  # flexible in every version


@cache
def at_version(cls: EntityClass, version: int) -> EntityClass:
    """`cls` as it is in an older version: without the fields that came later, in its parts too."""
    plans = {plan.name: plan for plan in field_plans(cls)}
    parts = {name: at_version(plan.entity, version) for name, plan in plans.items() if plan.entity is not None}
    kept = [each for each in fields(cls) if each.metadata["since"] <= version]
    if len(kept) == len(plans) and all(part is plans[name].entity for name, part in parts.items()):
        return cls
    hints, declared = get_type_hints(cls), []
    for each in kept:
        plan, part = plans[each.name], parts.get(each.name)
        hint = hints[each.name]
        if part is not None:
            hint = GenericAlias(tuple, (part, ...)) if plan.array else part
        declared.append((each.name, hint, field(default=each.default, metadata=each.metadata)))
    older = make_dataclass(cls.__name__, declared, **_FORM)
    _say(older, cls.__api_key__, version)
    return older
