"""Levels of compatibility and modes: of a subject, of a context, or of everything.

The one that counts for a subject is the nearest that is set: its own, that of its context, that of the context of all
contexts (`:.__GLOBAL:`), the node's setting.

| mode              | new schemas                       | deletes, levels |
| ----------------- | --------------------------------- | --------------- |
| READWRITE         | yes, and the registry gives ids   | yes             |
| READONLY          | no                                | no              |
| READONLY_OVERRIDE | no                                | no              |
| IMPORT            | only with an id in the request    | yes             |
| FORWARD           | only with an id; for everything   | yes             |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from broker.registry import metadata, records
from broker.registry import subjects as names
from broker.registry.calls import Call, Change
from broker.registry.errors import Code, RegistryError, not_permitted, subject_not_found
from broker.registry.formats.parsed import POLICIES, STRICT
from broker.registry.levels import LEVELS
from broker.registry.metadata import METADATA, RULES, More
from broker.registry.state import State

READWRITE, IMPORT, FORWARD = "READWRITE", "IMPORT", "FORWARD"
READ_ONLY = ("READONLY", "READONLY_OVERRIDE")
MODES = (READWRITE, *READ_ONLY, IMPORT, FORWARD)
_FLAGS = {"normalize", "validateFields"}
_TEXTS = {"alias", "compatibilityGroup"}
_AROUND = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")
_LATER = ("aliasForDeks", "validateNewSchemas", "validateRules")


class Config(NamedTuple):
    """What counts for a subject. With a `group`, schemas are compared with those that have its value as a property.

    `defaults` and `overrides` are metadata and rules that go around those of a schema.
    """

    level: str
    policy: str
    normalize: bool
    group: str
    defaults: More
    overrides: More


def _chain(subject: str | None) -> Iterator[str | None]:
    """Where a setting for a subject is looked for, in order."""
    if subject is None:
        yield from (None, names.GLOBAL)
        return
    yield subject
    prefix = names.parse(subject).prefix
    if prefix != subject:
        yield prefix or None
    if prefix != names.GLOBAL:
        yield names.GLOBAL


def config_of(call: Call, subject: str | None) -> Config:
    """What counts for a subject."""
    found = _nearest(call.state.configs, subject)
    level = str(found.get("compatibilityLevel") or call.defaults.level).upper()
    policy = str(found.get("compatibilityPolicy") or STRICT).upper()
    own = next((values for place in _chain(subject) if (values := call.state.configs.get(place))), {})
    return Config(
        level if level in LEVELS else call.defaults.level,
        policy if policy in POLICIES else STRICT,
        found.get("normalize") is True,
        str(found.get("compatibilityGroup") or ""),
        _around(own, "default"),
        _around(own, "override"),
    )


def _around(values: Mapping[str, Any], which: str) -> More:
    named = {METADATA: f"{which}Metadata", RULES: f"{which}RuleSet"}
    return {part: values[name] for part, name in named.items() if isinstance(values.get(name), dict)}


def aliased(state: State, text: str) -> str:
    """The subject that is meant by one that may have another as `alias`."""
    subject = names.normalized(text)
    alias = state.configs.get(subject, {}).get("alias")
    return names.referred(alias, subject) if isinstance(alias, str) and alias else subject


def _nearest(values: Mapping[str | None, Mapping[str, Any]], subject: str | None) -> dict[str, Any]:
    """Each setting from the nearest place where it is set."""
    found: dict[str, Any] = {}
    for place in _chain(subject):
        found = {**values.get(place, {}), **found}
    return found


def mode_of(state: State, subject: str | None) -> str:
    """What counts for a subject."""
    return str(_nearest(state.modes, subject).get("mode") or READWRITE)


def require_writable(state: State, subject: str | None) -> None:
    """Raises RegistryError."""
    if mode_of(state, subject) in READ_ONLY:
        raise not_permitted(f"Subject {subject} is in read-only mode")


async def list_settings(call: Call) -> list[list[Any]]:
    """Kind, subject (null: everything) and value of each level and mode that is set. Confluent's has no such list."""
    kinds = {"config": call.state.configs, "mode": call.state.modes}
    return [[kind, scope, _without_subject(value)] for kind, set_ in kinds.items() for scope, value in set_.items()]


# -- levels


async def get_config(call: Call) -> dict[str, Any]:
    """The level of this place; with `defaultToGlobal`, the one that counts for it."""
    scope = call.scope
    if call.flag("defaultToGlobal") or scope in (None, names.GLOBAL):
        places = list(_chain(scope)) if call.flag("defaultToGlobal") else [scope]
        found: dict[str, Any] = {}
        for place in places:
            found = {**call.state.configs.get(place, {}), **found}
        return _without_subject({"compatibilityLevel": call.defaults.level, **found})
    if scope not in call.state.configs:
        raise RegistryError(
            Code.NO_LEVEL_OF_SUBJECT, f"Subject '{scope}' does not have subject-level compatibility configured"
        )
    return _without_subject({"compatibilityLevel": config_of(call, scope).level, **call.state.configs[scope]})


def _without_subject(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: content for name, content in value.items() if name != "subject"}


async def put_config(call: Call) -> Change:
    """Set a level; what the request does not name stays, and what it names as null goes."""
    scope = _settable(call)
    changes = _changes(call.body)
    require_writable(call.state, scope)
    value = {**call.state.configs.get(scope, {}), **changes}
    value = {name: content for name, content in value.items() if content is not None}
    answer = _without_subject(value)
    if "compatibilityLevel" in answer:
        answer = {"compatibility": answer.pop("compatibilityLevel"), **answer}
    return Change([records.setting("CONFIG", scope, _without_subject(value))], answer)


def _changes(body: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a body names, None for those that it unsets. Raises RegistryError."""
    changes: dict[str, Any] = {name: None for name in (*_FLAGS, *_TEXTS, *_AROUND) if name in body}
    for name, stored, known, code in (
        ("compatibility", "compatibilityLevel", LEVELS, Code.INVALID_LEVEL),
        ("compatibilityPolicy", "compatibilityPolicy", POLICIES, Code.UNPROCESSABLE),
    ):
        if name in body:
            changes[stored] = None if body[name] is None else str(body[name]).upper()
            if changes[stored] not in (None, *known):
                raise RegistryError(code, f"Invalid {name}. Valid values are {', '.join(known)}")
    for kind, what, of_kind in ((bool, "true or false", _FLAGS), (str, "a text", _TEXTS)):
        for name in changes.keys() & of_kind:
            if not isinstance(body[name], kind | None):
                raise RegistryError(Code.UNPROCESSABLE, f"{name} must be {what}")
            changes[name] = body[name]
    for name in _LATER:
        if body.get(name) is not None:
            raise RegistryError(Code.UNPROCESSABLE, f"{name} is not supported by this registry: leave it out")
    return changes | metadata.given(body, _AROUND)


async def delete_config(call: Call) -> Change:
    """Let the level be that of the next place; the answer is the one that was set."""
    scope = call.scope
    if scope not in (None, names.GLOBAL, *call.state.configs):
        raise subject_not_found(str(scope))
    require_writable(call.state, scope)
    before = {"compatibilityLevel": call.defaults.level, **call.state.configs.get(scope, {})}
    return Change([records.setting("CONFIG", scope, None)], _without_subject(before))


def _settable(call: Call) -> str | None:
    scope = call.scope
    if scope is not None and not names.is_valid(scope, for_setting=True):
        raise RegistryError(Code.INVALID_SUBJECT, f"The specified subject '{scope}' is not valid.")
    return scope


# -- modes


async def get_mode(call: Call) -> dict[str, str]:
    """The mode of this place; with `defaultToGlobal`, the one that counts for it."""
    scope = call.scope
    if call.flag("defaultToGlobal"):
        return {"mode": mode_of(call.state, scope)}
    found = call.state.modes.get(scope)
    if found is not None:
        return {"mode": str(found.get("mode"))}
    if scope not in (None, names.GLOBAL):
        raise RegistryError(Code.NO_MODE_OF_SUBJECT, f"Subject '{scope}' does not have subject-level mode configured")
    return {"mode": READWRITE}


async def put_mode(call: Call) -> Change:
    """Set a mode, or unset it (null). To import is for where nothing is, unless `force` is given."""
    scope, given = _settable(call), call.body.get("mode", "")
    mode = None if given is None else str(given).upper()
    if mode not in (None, *MODES):
        raise RegistryError(Code.INVALID_MODE, f"Invalid mode. Valid values are {', '.join(MODES)}.")
    if mode == FORWARD and scope != names.GLOBAL:
        raise RegistryError(Code.INVALID_MODE, "Forward mode only supported on global level")
    _require_mode_may_change(call)
    written = []
    if mode == IMPORT and mode_of(call.state, scope) != IMPORT and not call.flag("force"):
        written = _cleared(call.state, scope)
    value = None if mode is None else {"mode": mode}
    return Change([*written, records.setting("MODE", scope, value)], {"mode": given})


def _cleared(state: State, scope: str | None) -> list[records.Written]:
    """What removes the soft-deleted versions. Raises RegistryError if there are others, or others refer to them."""
    if state.has(scope):
        raise not_permitted("Cannot import since found existing subjects")
    gone = [schema for subject in state.in_scope(scope) for schema in state.versions(subject, deleted=True)]
    for schema in gone:
        if state.referring_to(schema):
            raise RegistryError(Code.REFERENCE_EXISTS, f"{schema.subject} {schema.version} is referred to by others")
    return [*map(records.removed, gone), records.subjects_cleared(scope), *kept_ids(state, gone)]


def kept_ids(state: State, gone: list[records.Schema]) -> list[records.Written]:
    """What keeps the ids of versions that are removed for good from being given again."""
    lost = {(names.parse(schema.subject).context, schema.id) for schema in gone}
    largest = any(schema_id >= state.highest.get(context, 0) for context, schema_id in lost)
    return [records.highest_ids(state.highest)] if largest else []


async def delete_mode(call: Call) -> Change:
    scope = call.scope
    found = call.state.modes.get(scope)
    recursive = call.flag("recursive")
    if found is None and scope not in (None, names.GLOBAL) and not recursive:
        raise subject_not_found(str(scope))
    _require_mode_may_change(call)
    written = [records.setting("MODE", scope, None)]
    if recursive and (scope is None or not names.parse(scope).name):
        inner = [each for each in call.state.modes if each not in (None, scope) and names.matches(str(each), scope)]
        written += [records.setting("MODE", each, None) for each in inner]
    return Change(written, {"mode": READWRITE if found is None else found.get("mode")})


def _require_mode_may_change(call: Call) -> None:
    if not call.defaults.mode_may_change:
        raise not_permitted("Mode changes are not allowed: schema.registry.mode.mutability is false")
