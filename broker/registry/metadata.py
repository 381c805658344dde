"""What a schema has besides its text: metadata, and rules for those who write and read by it. Here they are only kept.

A version that comes without takes over those of the latest one. What `PUT /config` says goes around them: defaults
where the version says nothing, overrides in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker.registry.errors import Code, RegistryError
from broker.registry.records import Schema

METADATA, RULES = PARTS = ("metadata", "ruleSet")
VERSION = "confluent:version"
"""A property that Confluent's tools write, the number of the version: it makes no other schema."""

_LISTS = ("migrationRules", "domainRules", "encodingRules")
More = Mapping[str, Any]
"""Metadata and rules, as far as there are."""


def given(body: Mapping[str, Any], names: Iterable[str] = PARTS) -> dict[str, Any]:
    """The metadata and rules that a body has by these names, without what is empty in them. Raises RegistryError."""
    found = {name: body[name] for name in names if body.get(name) is not None}
    for name, value in found.items():
        if name.lower().endswith("ruleset"):
            _check_rules(name, value)
        elif not _is_metadata(value):
            raise RegistryError(
                Code.UNPROCESSABLE,
                f"{name}: expected an object with tags (lists of texts by name), properties (texts by name) and "
                "sensitive (a list of texts)",
            )
    return {name: _without_empty(value) for name, value in found.items()}


def _without_empty(value: Any) -> Any:
    """Clients write what they do not have as null, or as an empty list or object."""
    if isinstance(value, dict):
        return {name: _without_empty(each) for name, each in value.items() if each not in (None, [], {})}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def _is_metadata(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    tags, properties = (value.get(name) or {} for name in ("tags", "properties"))
    if not isinstance(tags, dict) or not isinstance(properties, dict):
        return False
    lists = [*tags.values(), value.get("sensitive") or []]
    return all(isinstance(each, list) and all(isinstance(text, str) for text in each) for each in lists) and all(
        isinstance(each, str | int | float) for each in properties.values()
    )


def _check_rules(name: str, value: Any) -> None:
    lists = [value.get(each) or [] for each in _LISTS] if isinstance(value, dict) else [None]
    if not all(isinstance(each, list) for each in lists):
        raise RegistryError(Code.INVALID_RULES, f"{name}: expected an object with lists: {', '.join(_LISTS)}")
    names: set[str] = set()
    for rule in (rule for each in lists for rule in each or ()):
        own = rule.get("name") if isinstance(rule, dict) else None
        if not isinstance(own, str) or own in names:
            raise RegistryError(Code.INVALID_RULES, f"{name}: each rule must have a name that no other has")
        names.add(own)


def completed(own: More, before: Schema | None, defaults: More, overrides: More) -> dict[str, Any]:
    """What a new version has, whose request has its `own`, after the version `before`."""
    found = {}
    for part in PARTS:
        specific = own.get(part)
        if specific is None and before is not None:
            specific = _without_version(before.value.get(part))
        value = _merged(_merged(defaults.get(part), specific), overrides.get(part))
        if value is not None:
            found[part] = value
    return found


def agree(schema: Schema, more: More) -> bool:
    """Whether a version has this metadata and these rules."""
    return all(_without_version(schema.value.get(part)) == _without_version(more.get(part)) for part in PARTS)


def property_of(more: More, name: str) -> Any:
    """A property of the metadata; None if there is none."""
    return ((more.get(METADATA) or {}).get("properties") or {}).get(name)


def _without_version(part: Any) -> Any:
    """Metadata without the property for the version, None if nothing else is in it; anything else as it is."""
    if part is None or VERSION not in (part.get("properties") or {}):
        return part
    properties = {name: value for name, value in part["properties"].items() if name != VERSION}
    left = {**part, "properties": properties}
    return left if any(left.values()) else None


def _merged(older: Any, newer: Any) -> Any:
    """Metadata or rules of both, the newer's where they have the same."""
    if older is None or newer is None:
        return newer if older is None else older
    return {**older, **newer, **{name: _both(older[name], newer[name]) for name in older.keys() & newer.keys()}}


def _both(older: Any, newer: Any) -> Any:
    match older, newer:
        case dict(), dict():
            return {**older, **newer}
        case list(), list():
            names = [_name(each) for each in newer]
            return [*(each for each in older if _name(each) not in names), *newer]
    return older if newer is None else newer


def _name(each: Any) -> Any:
    return each["name"] if isinstance(each, dict) else each
