"""What is asked about subjects, schemas, ids and contexts."""

from __future__ import annotations

import uuid
from typing import Any

from broker.process import own_version
from broker.registry import subjects as names
from broker.registry.calls import MOST_SCHEMAS_LISTED, Call, described, existing, require_subject, whole_number
from broker.registry.errors import Code, RegistryError, schema_not_found
from broker.registry.records import Schema
from broker.registry.registration import formatted
from broker.registry.schemas import MODULES


async def nothing(_call: Call) -> dict[str, Any]:
    return {}


async def cluster(call: Call) -> dict[str, Any]:
    """Whose registry it is."""
    clusters = {"kafka-cluster": call.defaults.cluster_id, "schema-registry-cluster": "schema-registry"}
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


async def server_version(_call: Call) -> dict[str, str]:
    return {"version": own_version(), "commitId": "odradek"}


async def kinds(_call: Call) -> list[str]:
    return list(MODULES)


async def contexts(call: Call) -> list[str]:
    """The contexts in which the user may see a subject."""
    state = call.state
    seen = {names.parse(subject).context for subject in state.subjects if call.allowed.may_see(subject)}
    used = {names.parse(subject).context for subject in state.subjects}
    found = [names.DEFAULT, *sorted(context for context in state.contexts if context in seen or context not in used)]
    return call.part_of([context for context in found if context.startswith(call.text("contextPrefix"))])


# -- subjects


async def list_subjects(call: Call) -> list[str]:
    """The subjects that begin like `subjectPrefix`, in alphabetical order."""
    state, only_deleted = call.state, call.flag("deletedOnly")
    with_deleted = call.flag("deleted") or only_deleted
    found = [
        subject
        for subject in sorted(_beginning_with(call, call.text("subjectPrefix", names.ANY)))
        if state.versions(subject, deleted=with_deleted) and not (only_deleted and state.versions(subject))
    ]
    return call.part_of(found)


def _beginning_with(call: Call, prefix: str) -> list[str]:
    wanted = names.parse(prefix)
    return [
        subject
        for subject, parsed in ((subject, names.parse(subject)) for subject in call.state.subjects)
        if wanted.context in ("*", parsed.context)
        and parsed.name.startswith(wanted.name)
        and call.allowed.may_see(subject)
    ]


async def list_versions(call: Call) -> list[int]:
    """The numbers of a subject's versions; with `deletedAsNegative`, all, those that are deleted as negative ones."""
    only, negative = call.flag("deletedOnly"), call.flag("deletedAsNegative")
    with_deleted = call.flag("deleted") or only
    require_subject(call, deleted=with_deleted)
    found = [
        -schema.version if negative and schema.is_deleted else schema.version
        for schema in call.state.versions(call.subject, deleted=with_deleted or negative)
        if schema.is_deleted or negative or not only
    ]
    return call.part_of(found)


async def get_version(call: Call) -> dict[str, Any]:
    return await formatted(call, existing(call, deleted=call.flag("deleted"), anywhere=True))


async def latest_with_metadata(call: Call) -> dict[str, Any]:
    """The latest version whose metadata has these properties, each by a `key` and a `value`."""
    deleted = call.flag("deleted")
    require_subject(call, deleted=deleted)
    wanted = dict(zip(call.query.get("key", ()), call.query.get("value", ()), strict=False))
    for schema in reversed(call.state.versions(call.subject, deleted=deleted)):
        properties = (schema.value.get("metadata") or {}).get("properties")
        if properties is not None and wanted.items() <= properties.items():
            return await formatted(call, schema)
    raise schema_not_found()


async def get_version_text(call: Call) -> Any:
    """The text alone; as it is JSON for most kinds, it is written as it is."""
    return RawText((await get_version(call))["schema"])


class RawText(str):
    """A text that is the whole answer, and not a JSON value in it."""

    __slots__ = ()


async def referenced_by(call: Call) -> list[int]:
    """The ids of the schemas that refer to a version."""
    schema = existing(call, deleted=True, anywhere=True)
    found = {other.id for other in call.state.referring_to(schema) if call.flag("deleted") or not other.is_deleted}
    return call.part_of(sorted(found))


# -- schemas


async def list_schemas(call: Call) -> list[dict[str, Any]]:
    """The versions of the subjects that begin like `subjectPrefix`."""
    found: list[Schema] = []
    for subject in sorted(_beginning_with(call, call.text("subjectPrefix", names.ANY))):
        versions = call.state.versions(subject, deleted=call.flag("deleted"))
        found += versions[-1:] if call.flag("latestOnly") else versions
    return [described(schema) for schema in call.part_of(found, MOST_SCHEMAS_LISTED)]


async def get_by_id(call: Call) -> dict[str, Any]:
    """The schema with an id; `subject` says in which context, as ids belong to contexts, and is answered if given."""
    answer = await formatted(call, _with_id(call)[0])
    for name in ("id",) if "subject" in call.query else ("id", "subject", "version"):
        answer.pop(name)
    if call.flag("fetchMaxId"):
        context = names.parse(call.text("subject")).context
        answer["maxId"] = call.state.highest.get(context, 0)
    return answer


async def get_text_by_id(call: Call) -> Any:
    return RawText((await get_by_id(call))["schema"])


async def subjects_of_id(call: Call) -> list[str]:
    return call.part_of(list(dict.fromkeys(schema.subject for schema in _used(call))))


async def versions_of_id(call: Call) -> list[dict[str, Any]]:
    return call.part_of([{"subject": schema.subject, "version": schema.version} for schema in _used(call)])


def _used(call: Call) -> list[Schema]:
    return [schema for schema in _with_id(call) if call.flag("deleted") or not schema.is_deleted]


def _with_id(call: Call) -> list[Schema]:
    """The versions with the id, that of the named subject first. Raises RegistryError if the user may see none."""
    schema_id = whole_number(call.named["id"])
    if schema_id is None:
        raise RegistryError(Code.NOT_FOUND, "HTTP 404 Not Found")
    subject = names.parse(call.text("subject"))
    found = call.state.with_id(subject.context, schema_id)
    if subject.name and subject.context == names.DEFAULT and all(each.subject != subject.text for each in found):
        # A client may not know the context of what it reads.
        for context in call.state.contexts:
            named = names.Subject(context, subject.name).text
            elsewhere = call.state.with_id(context, schema_id)
            if any(each.subject == named for each in elsewhere):
                return _seen(call, elsewhere, named, schema_id)
    return _seen(call, found, subject.text, schema_id)


def _seen(call: Call, found: list[Schema], first: str, which: object) -> list[Schema]:
    """Those that the user may see; with all of one subject first, and those that are not deleted before others."""
    if not found:
        raise schema_not_found(which)
    seen = [schema for schema in found if call.allowed.may_see(schema.subject)]
    if not seen:
        raise RegistryError(Code.FORBIDDEN, f"You may not DESCRIBE a topic whose schema {which} is")
    return sorted(seen, key=lambda schema: (schema.subject != first, schema.is_deleted))


async def get_by_guid(call: Call) -> dict[str, Any]:
    """The schema with a GUID, which is the same in every registry and context."""
    answer = await formatted(call, _with_guid(call)[0])
    for name in ("id", "subject", "version"):
        answer.pop(name)
    return answer


async def ids_of_guid(call: Call) -> list[dict[str, Any]]:
    found = {(names.parse(schema.subject).context, schema.id) for schema in _with_guid(call)}
    return [{"context": context, "id": schema_id} for context, schema_id in sorted(found)]


def _with_guid(call: Call) -> list[Schema]:
    text, state = call.named["guid"], call.state
    try:
        md5 = uuid.UUID(text).bytes
    except ValueError:
        raise schema_not_found(text[:100]) from None
    found: list[Schema] = []
    for context in (names.DEFAULT, *state.contexts):
        schema_id = state.id_of(context, md5)
        if schema_id is not None:
            found += state.with_id(context, schema_id)
    return _seen(call, found, "", text)


async def no_association(_call: Call) -> Any:
    """Newer clients ask first which subject a topic is associated with; without an answer they name it themselves."""
    raise RegistryError(Code.NOT_FOUND, "Associations are not supported by this registry")
