"""New versions, and what a schema is already known as.

A schema has one id in a context, under whatever subjects: the id that was given to the same content before. Under one
subject, a schema that is the same but for what has no meaning is the version that is there. A soft-deleted version of
the same content gives way to the new one, which has its id and the next number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from broker.registry import metadata, records
from broker.registry import subjects as names
from broker.registry.calls import LATEST, Call, Change, described, places, require_subject
from broker.registry.errors import (
    Code,
    RegistryError,
    invalid_schema,
    not_permitted,
    schema_not_found,
    version_not_found,
)
from broker.registry.formats.parsed import Given, Parsed, Work
from broker.registry.levels import Earlier, problems
from broker.registry.records import AVRO, LARGEST, Reference, Schema
from broker.registry.schemas import Form
from broker.registry.settings import FORWARD, IMPORT, READ_ONLY, READWRITE, Config, config_of, mode_of

IMPORTS = (IMPORT, FORWARD)


class Wanted(NamedTuple):
    """What a body asks for. `more` are its metadata and rules. `is_own`: it has a text."""

    kind: str
    text: str
    references: tuple[Reference, ...]
    more: Mapping[str, Any]
    version: int | None
    id: int | None
    is_own: bool = True


def wanted(call: Call) -> Wanted:
    """Raises RegistryError."""
    body = call.body
    kind, text, references = body.get("schemaType") or AVRO, body.get("schema"), body.get("references") or ()
    if not isinstance(kind, str) or not isinstance(text, str | None) or not isinstance(references, list | tuple):
        raise RegistryError(Code.UNPROCESSABLE, "schema and schemaType must be texts, references must be a list")
    return Wanted(
        kind.upper(),
        text or "",
        tuple(_reference(call, each) for each in references),
        metadata.given(body),
        _number(body, "version"),
        _number(body, "id"),
    )


def _reference(call: Call, given: Any) -> Reference:
    if (
        not isinstance(given, dict)
        or not isinstance(given.get("name"), str)
        or not isinstance(given.get("subject"), str)
    ):
        raise RegistryError(Code.UNPROCESSABLE, "each of references must have a name, a subject and a version")
    version = given.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not (version == LATEST or 0 < version <= LARGEST):
        raise RegistryError(
            Code.UNPROCESSABLE, f"the version of reference {given['name']!r} must be a number from 1 on"
        )
    if version == LATEST:  # what it is now: the schema must not change with what it refers to
        latest = call.state.version(names.referred(given["subject"], call.subject), LATEST)
        version = LATEST if latest is None else latest.version
    return Reference(given["name"], given["subject"], version)


def _number(body: Mapping[str, Any], name: str) -> int | None:
    """A number from 1 on; None for what clients write if they have none."""
    value = body.get(name)
    if value is None or value in (0, -1):
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= LARGEST:
        raise RegistryError(Code.UNPROCESSABLE, f"{name} must be a number from 1 to {LARGEST}")
    return value


class Understood(NamedTuple):
    """A schema of a request, parsed; `text` is what is kept of it."""

    wanted: Wanted
    parsed: Parsed
    text: str

    def completed(self, before: Schema | None, config: Config) -> Understood:
        """With the metadata and rules that it has after this version."""
        more = metadata.completed(self.wanted.more, before, config.defaults, config.overrides)
        return self._replace(wanted=self.wanted._replace(more=more))

    @property
    def md5(self) -> bytes:
        return records.md5_of(self.text, self.wanted.references, self.wanted.more)


async def _understood(call: Call, asked: Wanted, config: Config) -> Understood:
    given = call.schemas.given(call.state, call.subject, asked.text, asked.references)
    normalize = call.flag("normalize") or config.normalize

    def parse() -> Understood:
        parsed = call.schemas.parse(asked.kind, given)
        return Understood(asked, parsed, parsed.normalized() if normalize else parsed.text)

    return await call.schemas.run(parse)


async def register(call: Call) -> Change:
    """Add a version, or answer with the one that is there."""
    subject, state, config = call.subject, call.state, config_of(call, call.subject)
    if not names.is_valid(subject):
        raise RegistryError(Code.INVALID_SUBJECT, f"The specified subject '{subject}' is not valid.")
    asked = _or_previous(call, wanted(call))
    new, live = await _understood(call, asked, config), state.versions(subject)
    if asked.is_own and not (config.defaults or config.overrides):
        same = await _match(call, new, live)  # it may be asked for in any mode
        if same is not None and asked.version in (None, same.version) and asked.id in (None, same.id):
            return Change((), _registered(asked, same))
    mode = mode_of(state, subject)
    _check_mode(subject, mode, asked)
    if mode not in IMPORTS:
        new = new.completed(live[-1] if live else None, config)
    if asked.version is None:
        same = await _match(call, new, [schema for schema in live if asked.id in (None, schema.id)])
        if same is not None:
            return Change((), _registered(asked, same))
    if mode not in IMPORTS and not call.flag("force"):
        await _require_compatible(call, config, new, live)
    return _added(call, new, mode)


def _or_previous(call: Call, asked: Wanted) -> Wanted:
    """Without a text, the latest version with other metadata and rules."""
    if asked.text.strip():
        return asked
    latest = call.state.version(call.subject, LATEST)
    if latest is None:
        raise invalid_schema("Empty schema")
    return asked._replace(kind=latest.kind, text=latest.text, references=latest.references, is_own=False)


def _check_mode(subject: str, mode: str, asked: Wanted) -> None:
    if mode in READ_ONLY:
        raise not_permitted(f"Subject {subject} is in read-only mode")
    if asked.id is not None and mode not in IMPORTS:
        raise not_permitted(f"Subject {subject} is not in import mode, in which alone a schema comes with its id")
    if asked.id is None and mode != READWRITE:
        raise not_permitted(f"Subject {subject} is not in read-write mode: in {mode} mode a schema comes with its id")


async def _match(call: Call, new: Understood, versions: Sequence[Schema]) -> Schema | None:
    """The latest of these versions that is the schema, or else differs from it only in what has no meaning."""
    exact = [schema for schema in versions if schema.md5 == new.md5]
    if exact:
        return exact[-1]
    candidates = [
        (schema, call.schemas.of(call.state, schema))
        for schema in reversed(versions)
        if schema.kind == new.wanted.kind and _agree(schema, new.wanted)
    ]

    def is_same(schema: Schema, given: Given) -> bool:
        if schema.references and not new.wanted.references:  # it is sent with all that it needs in it
            return schema.kind == AVRO and call.schemas.has(schema.kind, given, Form.RESOLVED, new.parsed.text)
        return call.schemas.has(schema.kind, given, Form.MEANING, new.parsed.meaning) or (
            new.text != new.parsed.text and call.schemas.has(schema.kind, given, Form.NORMALIZED, new.text)
        )

    def find() -> Schema | None:
        return next((schema for schema, given in candidates if is_same(schema, given)), None)

    return await call.schemas.run(find) if candidates else None


def _agree(schema: Schema, asked: Wanted) -> bool:
    """Whether a version has the references, metadata and rules of a request."""
    return (not asked.references or asked.references == schema.references) and metadata.agree(schema, asked.more)


async def _require_compatible(call: Call, config: Config, new: Understood, live: Sequence[Schema]) -> None:
    found = await _problems(call, config, new, live)
    if found:
        raise RegistryError(
            Code.INCOMPATIBLE_SCHEMA,
            f'Schema being registered is incompatible with an earlier schema for subject "{call.subject}", '
            f"details: [{', '.join(found)}]",
        )


async def _problems(call: Call, config: Config, new: Understood, live: Sequence[Schema]) -> list[str]:
    group = metadata.property_of(new.wanted.more, config.group)
    earlier = [
        Earlier(schema.version, schema.kind, _parsed_later(call, schema.kind, call.schemas.of(call.state, schema)))
        for schema in live
        if not config.group or metadata.property_of(schema.value, config.group) == group
    ]
    kind = new.wanted.kind
    return await call.schemas.run(lambda: problems(config.level, config.policy, kind, new.parsed, earlier, Work()))


def _parsed_later(call: Call, kind: str, given: Given) -> Callable[[], Parsed]:
    return lambda: call.schemas.parse(kind, given)


def _added(call: Call, new: Understood, mode: str) -> Change:
    """The records of a new version."""
    subject, state, asked = call.subject, call.state, new.wanted
    context = names.parse(subject).context
    known = state.id_of(context, new.md5)
    given_id = known if asked.id is None else asked.id
    versions = state.versions(subject, deleted=True)
    following = versions[-1].version + 1 if versions else 1
    version = asked.version or following
    if version != following and mode not in IMPORTS:
        raise invalid_schema(f"Version is not one more than previous version: expected {following}")
    if given_id is not None and any(each.md5 != new.md5 for each in state.with_id(context, given_id)):
        raise not_permitted(f"Overwrite new schema with id {given_id} is not permitted.")
    schema_id = state.highest.get(context, 0) + 1 if given_id is None else given_id
    if schema_id > LARGEST:
        raise not_permitted(f"There are no more ids in context {context}")
    written = [] if context == names.DEFAULT or context in state.contexts else [records.context_made(context)]
    written += [
        records.removed(schema)
        for schema in versions
        if schema.is_deleted and schema.id == schema_id and schema.version < version and not state.referring_to(schema)
    ]
    record = records.schema_record(subject, version, schema_id, asked.kind, new.text, asked.references, asked.more)
    assert record.value is not None
    return Change([*written, record], _registered(asked, records.read_schema(record.key, record.value)))


def _registered(asked: Wanted, schema: Schema) -> dict[str, Any]:
    """The answer to a registration. Clients take a schema in it for the one that they sent, in the same format."""
    answer = described(schema)
    if asked.is_own:
        del answer["schema"]
    return answer


# -- what changes nothing


async def look_up(call: Call) -> dict[str, Any]:
    """The version of a subject that a schema is. Without a context, that of other contexts will do."""
    config, asked, deleted = config_of(call, call.subject), wanted(call), call.flag("deleted")
    if asked.text.strip():
        new = await _understood(call, asked, config)
        for place in places(call):
            versions, latest = call.state.versions(place, deleted=deleted), call.state.version(place, LATEST)
            completed = new if latest is None else new.completed(latest, config_of(call, place))
            for each in (new,) if completed.md5 == new.md5 else (new, completed):
                found = await _match(call, each, versions)
                if found is not None:
                    return await formatted(call, found)
    require_subject(call, deleted=deleted)
    raise schema_not_found()


async def formatted(call: Call, schema: Schema) -> dict[str, Any]:
    """A version as it is answered, in the `format` that is asked for."""
    answer, name = described(schema), call.text("format")
    if call.text("referenceFormat") == "qualified":
        for reference in answer.get("references", ()):
            reference["subject"] = names.referred(reference["subject"], schema.subject)
    if name:
        given = call.schemas.of(call.state, schema)
        answer["schema"] = await call.schemas.run(lambda: call.schemas.parse(schema.kind, given).formatted(name))
    return answer


async def check(call: Call) -> dict[str, Any]:
    """Whether a schema could follow one version, or without a version in the path all that the level asks for."""
    live = call.state.versions(call.subject)
    if "version" in call.named and (live or call.version != LATEST):
        version = call.state.version(call.subject, call.version)
        if version is None:
            raise version_not_found(call.version)
        live = [version]
    config, verbose = config_of(call, call.subject), call.flag("verbose")
    try:
        asked = wanted(call)
        if not asked.text.strip():
            raise invalid_schema("Empty schema")
        found = await _problems(call, config, await _understood(call, asked, config), live)
    except RegistryError as error:
        if not verbose or error.code is not Code.INVALID_SCHEMA:
            raise
        found = [str(error)]
    return {"is_compatible": not found, **({"messages": found} if verbose else {})}
