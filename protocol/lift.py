"""Converts a request of an older version to the newest class of its API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from .schema import Entity, EntityClass, field_plans

Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Reshaped:
    """A field that versions up to `until` express differently: its value is `value(old request, newest class)`."""

    until: int
    value: Callable[[Entity, EntityClass], Any]


def _topics_by_name(old: Entity, cls: EntityClass) -> tuple[Entity, ...]:
    topic = _nested_class(cls, "topics")
    return tuple(topic(name=name, topic_id=None) for name in old.topic_names)


def _all_if_empty(old: Entity, cls: EntityClass) -> tuple[Entity, ...] | None:
    topic = _nested_class(cls, "topics")
    return tuple(topic(topic_id=None, name=asked.name) for asked in old.topics) or None


def _one_member(old: Entity, cls: EntityClass) -> tuple[Entity, ...]:
    return (_nested_class(cls, "members")(member_id=old.member_id),)


def _nested_class(cls: EntityClass, name: str) -> EntityClass:
    (nested,) = (plan.entity for plan in field_plans(cls) if plan.name == name)
    assert nested is not None
    return nested


RESHAPED: dict[tuple[str, str], Reshaped] = {
    ("DeleteTopicsRequest", "topics"): Reshaped(5, _topics_by_name),
    ("LeaveGroupRequest", "members"): Reshaped(2, _one_member),
    # Version 0 has no null: its empty list asks for all topics (MetadataRequest.isAllTopics).
    ("MetadataRequest", "topics"): Reshaped(0, _all_if_empty),
}


def lift(entity: Entity, cls: EntityClass) -> Entity:
    """`entity` as an instance of `cls`, the class of a newer version; `entity` itself if it is one already.

    A field that the older class lacks gets its default, or what `RESHAPED` says.
    """
    if entity.__class__ is cls:
        return entity
    return _lifter(entity.__class__, cls)(entity)


def is_reshaped(old: EntityClass, new: EntityClass) -> bool:
    """Whether `RESHAPED` applies to an instance of `old`."""
    old_plans = {plan.name: plan for plan in field_plans(old)}
    for plan in field_plans(new):
        rule = RESHAPED.get((new.__name__, plan.name))
        if rule is not None and old.__version__ <= rule.until:
            return True
        known = old_plans.get(plan.name)
        if known is not None and known.entity is not None and is_reshaped(known.entity, plan.entity):
            return True
    return False


@cache
def _lifter(old: EntityClass, new: EntityClass) -> Convert:
    reshaped: list[tuple[str, Reshaped]] = []
    copied: list[tuple[str, Convert | None]] = []
    defaults: dict[str, Any] = {}
    old_plans = {plan.name: plan for plan in field_plans(old)}
    for plan in field_plans(new):
        rule = RESHAPED.get((new.__name__, plan.name))
        if rule is not None and old.__version__ <= rule.until:
            reshaped.append((plan.name, rule))
        elif plan.name not in old_plans:
            defaults[plan.name] = plan.default
        else:
            nested = old_plans[plan.name].entity
            convert = None if nested is None or plan.entity is None else _nested(nested, plan.entity, plan.array)
            copied.append((plan.name, convert))

    def lift_entity(entity: Entity) -> Entity:
        values = defaults.copy()
        for name, convert in copied:
            value = getattr(entity, name)
            values[name] = value if convert is None or value is None else convert(value)
        for name, rule in reshaped:
            values[name] = rule.value(entity, new)
        return new(**values)

    return lift_entity


def _nested(old: EntityClass, new: EntityClass, array: bool) -> Convert:
    convert = _lifter(old, new)
    if not array:
        return convert
    return lambda items: tuple(convert(item) for item in items)
