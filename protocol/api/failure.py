"""The answer to a request that failed, made from the schema: the error in each place that the API has for it.

An answer with an error code of its own has it there. Otherwise each list of the answer whose items have an error is
filled from the list of the request that names the same things: topics, partitions, groups, resources. So is such a list
on demand (`of_items`), for the part of a request that failed while the rest did not. Fields without a value here have
the schema's default, or what the row says (`when_failed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from ..errors import KafkaError
from ..schema import Entity, EntityClass, FieldPlan, default_entity, field_plans
from . import messages
from .row import Api
from .shape import COORDINATOR_KEYS, is_partition_number, named_type

TEXT = "error_message"


@dataclass(frozen=True, slots=True)
class AnswerList:
    """A list of an answer, and how its items follow from those of the request.

    Attributes:
        answered, entity: the field of the answer, and the class of its items.
        asked: the lists of the request that it is filled from, each by the fields that lead to it.
        copied: fields of an item by the field of the request's item that they are copied from.
        value: the field of an item that has the request's item itself, where that is no entity.
        error: the field with the item's error code; None if only its own lists (`inner`) have some.
    """

    answered: str
    entity: EntityClass
    asked: tuple[tuple[str, ...], ...]
    copied: tuple[tuple[str, str], ...]
    value: str | None
    error: str | None
    inner: tuple[AnswerList, ...]


class FailedRequest(Protocol):
    """The request's context, as far as it says what the answer looks like."""

    @property
    def version(self) -> int: ...

    @property
    def raw(self) -> Entity:
        """The request in kio's class of `version`."""


def failed(api: Api, ctx: FailedRequest, request: Entity, error: KafkaError) -> Entity:
    """The answer of a request that failed as a whole."""
    version = ctx.version
    if version < api.knows_fenced_from:
        error = api.known_error(version, error)
    response, values, at_top, text = _without_error(api, version)
    if at_top:
        values = values | {"error_code": ErrorCode.none if error.code in api.forgives else error.code}
        if text is not None:
            values[TEXT] = _said(api, error, text)
        if not api.fails_everywhere:
            return response(**values)
    if version <= api.own_form_until and request.__class__ is not messages.request_class(api.key, version):
        request = ctx.raw
    return response(**values | _lists(api, response, request, error))


@cache
def _without_error(api: Api, version: int) -> tuple[EntityClass, dict[str, Any], bool, FieldPlan | None]:
    """The class of the answer, its fields' values but for the error, whether it has one, and the field for a text."""
    own = messages.response_class(api.key, version)
    response = own if version <= api.own_form_until else messages.newest_response(api)
    plans = {plan.name: plan for plan in field_plans(response)}
    nullable = {plan.name for plan in field_plans(own) if plan.nullable}
    values = {name: plan.default for name, plan in plans.items()}
    values |= {
        name: value for name, value in api.when_failed if name in plans and (value is not None or name in nullable)
    }
    return response, values, has_own_error(response), plans.get(TEXT)


def has_own_error(response: EntityClass) -> bool:
    """Whether an answer has an error of the request as a whole."""
    return "error_code" in field_names(response)


def of_items(api: Api, _ctx: FailedRequest, request: Entity, error: KafkaError) -> Entity:
    """The answer with the error at each item of the request, and none at the top."""
    newest = messages.newest_response(api)
    return default_entity(newest, **_lists(api, newest, request, error))


def _lists(api: Api, response: EntityClass, request: Entity, error: KafkaError) -> dict[str, Any]:
    places = places_of(request.__class__, response)
    return {place.answered: tuple(_items(api, place, request, error)) for place in places}


def _items(api: Api, place: AnswerList, request: Entity, error: KafkaError) -> list[Entity]:
    made = [_item(api, place, item, error) for path in place.asked for item in _at(request, path)]
    return made if len(place.asked) == 1 else list(dict.fromkeys(made))


def _item(api: Api, place: AnswerList, asked: Any, error: KafkaError) -> Entity:
    plans = {plan.name: plan for plan in field_plans(place.entity)}
    values: dict[str, Any] = {name: _copied(plans[name], getattr(asked, source)) for name, source in place.copied}
    if place.value is not None:
        values[place.value] = asked
    values |= {name: value for name, value in api.when_failed if name in plans}
    if place.error is not None:
        values[place.error] = error.code
        values |= _text(place.entity, api, error)
    for inner in place.inner:
        values[inner.answered] = tuple(_items(api, inner, asked, error))
    return default_entity(place.entity, **values)


def _copied(plan: FieldPlan, value: Any) -> Any:
    if plan.entity is not None:
        names = [inner.name for inner in field_plans(plan.entity)]
        return tuple(plan.entity(**{name: getattr(each, name) for name in names}) for each in value)
    return "" if value is None and plan.kind == "string" else value


def _text(cls: EntityClass, api: Api, error: KafkaError) -> Mapping[str, str | None]:
    field = next((plan for plan in field_plans(cls) if plan.name == TEXT), None)
    return {} if field is None else {TEXT: _said(api, error, field)}


def _said(api: Api, error: KafkaError, field: FieldPlan) -> str | None:
    text = error.explicit_message if api.terse else error.message
    return text if field.nullable else text or ""


def _at(holder: Any, path: tuple[str, ...]) -> Iterable[Any]:
    items = getattr(holder, path[0]) or ()
    return items if len(path) == 1 else (inner for item in items for inner in _at(item, path[1:]))


# -- which list of the answer is filled from which of the request


@cache
def places_of(request: EntityClass, response: EntityClass) -> tuple[AnswerList, ...]:
    """The lists of an answer that have errors, without those below an item that has one itself."""
    return tuple(
        place
        for plan in field_plans(response)
        if plan.array and plan.entity is not None and plan.tag is None
        for place in (_place(plan.name, plan.entity, request),)
        if place is not None
    )


def _place(answered: str, entity: EntityClass, request: EntityClass) -> AnswerList | None:
    error = next((plan.name for plan in field_plans(entity) if plan.kind == "error_code"), None)
    lists = [plan for plan in field_plans(entity) if plan.array and plan.entity is not None]
    if error is None and not any(_has_error(plan.entity) for plan in lists):
        return None
    found = list(_sources(request, entity, ()))
    if not found:
        return None
    best = [source for source in found if source.likeness == max(each.likeness for each in found)]
    best = [source for source in best if source.path[-1] == answered] or best
    _, item, copied, value, _ = best[0]
    asked = tuple(each.path for each in best if field_names(each.item) >= {name for _, name in copied})
    inner = () if error is not None or item is None else places_of(item, entity)
    return AnswerList(answered, entity, asked, tuple(copied), value, error, inner)


@cache
def field_names(cls: EntityClass | None) -> set[str]:
    return set() if cls is None else {plan.name for plan in field_plans(cls)}


def _has_error(cls: EntityClass) -> bool:
    return any(
        plan.kind == "error_code" or (plan.array and plan.entity is not None and _has_error(plan.entity))
        for plan in field_plans(cls)
    )


class RequestList(NamedTuple):
    """A list of a request: the way to it, its items, what is copied of them, and the field for an item itself."""

    path: tuple[str, ...]
    item: EntityClass | None
    copied: list[tuple[str, str]]
    value: str | None
    likeness: int


def _sources(holder: EntityClass, entity: EntityClass, path: tuple[str, ...]) -> Iterator[RequestList]:
    for plan in field_plans(holder):
        if not plan.array or plan.tag is not None or plan.name.startswith("forgotten"):
            continue
        here = (*path, plan.name)
        if plan.entity is not None:
            copied, likeness = _identity(plan.entity, entity)
            if copied or not any(_may_identify(each) for each in field_plans(entity)):
                yield RequestList(here, plan.entity, copied, None, likeness)
            if not path:
                yield from _sources(plan.entity, entity, here)
        elif (value := _field_for(plan, entity)) is not None:
            yield RequestList(here, None, [], value, 2)


def _field_for(asked: FieldPlan, entity: EntityClass) -> str | None:
    """The field of an item of the answer that has the item of a request's list, which is a plain value."""
    fields = [plan for plan in field_plans(entity) if not plan.array and plan.name != TEXT]
    if asked.kind == "int32":
        return next((plan.name for plan in fields if is_partition_number(plan)), None)
    what = named_type(asked)
    if what is None and asked.name in COORDINATOR_KEYS:
        return next(plan.name for plan in fields if plan.name in COORDINATOR_KEYS)
    same = (plan.name for plan in fields if what is not None and named_type(plan) == what)
    return next(same, None)


def _identity(asked: EntityClass, entity: EntityClass) -> tuple[list[tuple[str, str]], int]:
    """The fields that say which item it is, each with that of the request's item, and how much they are alike."""
    pairs = [
        (answered.name, source.name)
        for answered in field_plans(entity)
        if _may_identify(answered)
        for source in field_plans(asked)
        if _same(answered, source)
    ]
    if pairs:
        return pairs, 2 * len(pairs)
    texts = [
        next((plan.name for plan in field_plans(cls) if plan.kind == "string" and plan.name != TEXT), None)
        for cls in (entity, asked)
    ]
    if texts[0] is None or texts[1] is None:
        return [], 0
    return [(texts[0], texts[1])], 1  # a user is `user` in one and `name` in the other


def _same(answered: FieldPlan, asked: FieldPlan) -> bool:
    if answered.array != asked.array:
        return False
    if answered.entity is not None:
        return answered.name == asked.name and asked.entity is not None and _is_whole(answered.entity, asked.entity)
    if is_partition_number(answered):
        return is_partition_number(asked)
    if answered.kind == asked.kind and answered.name == asked.name:
        return True
    what = named_type(answered)
    return what is not None and what == named_type(asked) and answered.kind == asked.kind


def _is_whole(answered: EntityClass, asked: EntityClass) -> bool:
    return field_names(answered) == field_names(asked)


def _may_identify(plan: FieldPlan) -> bool:
    if plan.name == TEXT or plan.tag is not None:
        return False
    if plan.entity is not None:
        return plan.array and not _has_error(plan.entity)
    if plan.array:
        return False
    return plan.kind in ("string", "uuid", "int8") or is_partition_number(plan) or plan.type_name == "ProducerId"
