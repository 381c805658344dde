"""Deletes: a soft one hides versions, and keeps them for data that was written with them; a permanent one follows it.

What others refer to is not deleted. After a permanent delete the number of the version may be given again, but the id
never: the largest one is written down (`records.highest_ids`).
"""

from __future__ import annotations

from broker.registry import records
from broker.registry.calls import Call, Change, existing, require_subject
from broker.registry.errors import Code, RegistryError
from broker.registry.records import Schema
from broker.registry.settings import kept_ids, require_writable


async def delete_subject(call: Call) -> Change:
    """All versions of a subject; the answer is their numbers."""
    subject, permanent = call.subject, call.flag("permanent")
    require_subject(call, deleted=True)
    if not permanent and not call.state.versions(subject):
        raise RegistryError(
            Code.SUBJECT_SOFT_DELETED, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
        )
    require_writable(call.state, subject)
    gone = call.state.versions(subject, deleted=permanent)
    for schema in gone:
        _require_unused(call, schema, permanent, but=subject)
    if permanent and any(not schema.is_deleted for schema in gone):
        raise RegistryError(
            Code.SUBJECT_NOT_SOFT_DELETED, f"Subject '{subject}' was not deleted first before being permanently deleted"
        )
    answer = [schema.version for schema in gone]
    if permanent:
        return Change(_removed(call, gone), answer)
    return Change([records.subject_deleted(subject, answer[-1])], answer)


async def delete_version(call: Call) -> Change:
    """One version; the answer is its number."""
    permanent = call.flag("permanent")
    schema = existing(call, deleted=True)
    if schema.is_deleted and not permanent:
        raise RegistryError(
            Code.VERSION_SOFT_DELETED,
            f"Subject '{schema.subject}' Version {schema.version} was soft deleted. "
            "Set permanent=true to delete permanently",
        )
    require_writable(call.state, schema.subject)
    _require_unused(call, schema, permanent)
    if not permanent:
        return Change([records.soft_deleted(schema)], schema.version)
    if not schema.is_deleted:
        raise RegistryError(
            Code.VERSION_NOT_SOFT_DELETED,
            f"Subject '{schema.subject}' Version {schema.version} was not deleted first "
            "before being permanently deleted",
        )
    return Change(_removed(call, [schema]), schema.version)


def _require_unused(call: Call, schema: Schema, permanent: bool, but: str | None = None) -> None:
    """Raises RegistryError if another schema refers to this one; before a permanent delete, also a soft-deleted one.

    Versions of the subject `but` do not count, as they are deleted together.
    """
    for other in call.state.referring_to(schema):
        if other.subject != but and (permanent or not other.is_deleted):
            raise RegistryError(
                Code.REFERENCE_EXISTS,
                f"Version {schema.version} of {schema.subject} is referred to by version {other.version} "
                f"of {other.subject}",
            )


def _removed(call: Call, gone: list[Schema]) -> list[records.Written]:
    """What removes versions of one subject, and with the last of them its level and mode."""
    state, subject = call.state, gone[0].subject
    written = [*kept_ids(state, gone), *map(records.removed, gone)]
    if len(state.versions(subject, deleted=True)) == len(gone):
        written += [records.setting("MODE", subject, None)] if subject in state.modes else []
        written += [records.setting("CONFIG", subject, None)] if subject in state.configs else []
    return written
