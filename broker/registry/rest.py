"""The REST interface: which function answers what, and which right on which resource it asks for.

The right is that on the topic whose records a subject's schemas are for: of `orders-value` on the topic `orders`, of a
subject that is named like no topic's key or value on the topic of its whole name. Levels and modes of a context, and of
everything, are the cluster's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

from broker.registry import deletion, reads, registration, settings
from broker.registry import subjects as names
from broker.registry.calls import Asked, Call
from broker.registry.errors import Code, RegistryError
from broker.registry.settings import aliased
from broker.registry.state import State
from metadata.acls import AclOperation

DESCRIBE, WRITE, DELETE = AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.DELETE
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS


class Row(NamedTuple):
    """`right` is what the user needs on the subject of the path; None where each subject of the answer counts.

    With `writes`, `handler` returns a `Change`.
    """

    method: str
    path: str
    handler: Callable[[Call], Awaitable[Any]]
    right: AclOperation | None = None
    writes: bool = False


ROWS = (
    Row("GET", "/", reads.nothing),
    Row("POST", "/", reads.nothing),
    Row("GET", "/v1/metadata/id", reads.cluster),
    Row("GET", "/v1/metadata/version", reads.server_version),
    Row("GET", "/contexts", reads.contexts),
    Row("GET", "/subjects", reads.list_subjects),
    Row("POST", "/subjects/{subject}", registration.look_up, DESCRIBE),
    Row("DELETE", "/subjects/{subject}", deletion.delete_subject, DELETE, writes=True),
    Row("GET", "/subjects/{subject}/metadata", reads.latest_with_metadata, DESCRIBE),
    Row("GET", "/subjects/{subject}/versions", reads.list_versions, DESCRIBE),
    Row("POST", "/subjects/{subject}/versions", registration.register, WRITE, writes=True),
    Row("GET", "/subjects/{subject}/versions/{version}", reads.get_version, DESCRIBE),
    Row("DELETE", "/subjects/{subject}/versions/{version}", deletion.delete_version, DELETE, writes=True),
    Row("GET", "/subjects/{subject}/versions/{version}/schema", reads.get_version_text, DESCRIBE),
    Row("GET", "/subjects/{subject}/versions/{version}/referencedby", reads.referenced_by, DESCRIBE),
    Row("GET", "/schemas", reads.list_schemas),
    Row("GET", "/schemas/types", reads.kinds),
    Row("GET", "/schemas/ids/{id}", reads.get_by_id),
    Row("GET", "/schemas/ids/{id}/schema", reads.get_text_by_id),
    Row("GET", "/schemas/ids/{id}/subjects", reads.subjects_of_id),
    Row("GET", "/schemas/ids/{id}/versions", reads.versions_of_id),
    Row("GET", "/schemas/guids/{guid}", reads.get_by_guid),
    Row("GET", "/schemas/guids/{guid}/ids", reads.ids_of_guid),
    Row("POST", "/compatibility/subjects/{subject}/versions", registration.check, DESCRIBE),
    Row("POST", "/compatibility/subjects/{subject}/versions/{version}", registration.check, DESCRIBE),
    Row("GET", "/config", settings.get_config),
    Row("PUT", "/config", settings.put_config, ALTER_CONFIGS, writes=True),
    Row("DELETE", "/config", settings.delete_config, ALTER_CONFIGS, writes=True),
    Row("GET", "/config/{subject}", settings.get_config, DESCRIBE),
    Row("PUT", "/config/{subject}", settings.put_config, ALTER_CONFIGS, writes=True),
    Row("DELETE", "/config/{subject}", settings.delete_config, ALTER_CONFIGS, writes=True),
    Row("GET", "/mode", settings.get_mode),
    Row("PUT", "/mode", settings.put_mode, ALTER_CONFIGS, writes=True),
    Row("DELETE", "/mode", settings.delete_mode, ALTER_CONFIGS, writes=True),
    Row("GET", "/mode/{subject}", settings.get_mode, DESCRIBE),
    Row("PUT", "/mode/{subject}", settings.put_mode, ALTER_CONFIGS, writes=True),
    Row("DELETE", "/mode/{subject}", settings.delete_mode, ALTER_CONFIGS, writes=True),
    Row("GET", "/odradek/settings", settings.list_settings, DESCRIBE_CONFIGS),
    Row("GET", "/associations/resources/{namespace}/{resource}", reads.no_association),
)


class Found(NamedTuple):
    """The row for a request, what its path and the context before it name, its query, and its body as it was given."""

    row: Row
    named: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    given: Any


_PATHS: dict[int, list[tuple[list[str], Row]]] = {}
for _row in ROWS:
    _parts = _row.path.strip("/").split("/")
    _PATHS.setdefault(len(_parts), []).append((_parts, _row))


def find(asked: Asked) -> Found:
    """The row for a request; `/contexts/CONTEXT` before a path says in which context its subject is.

    Raises RegistryError.
    """
    path, _, query = asked.target.partition("?")
    parts = path.strip("/").split("/")
    context = ""
    if parts[0] == "contexts" and len(parts) > 2:
        context, parts = names.context_prefix(unquote(parts[1])), parts[2:]
    matched = [(row, _match(pattern, parts)) for pattern, row in _PATHS.get(len(parts), ())]
    rows = [(row, named) for row, named in matched if named is not None]
    for row, named in rows:
        if row.method == asked.method.replace("HEAD", "GET"):
            return Found(row, *_in_context(context, row, named, parse_qs(query, keep_blank_values=True)), asked.body)
    if rows:
        expected = ", ".join(row.method for row, _ in rows)
        raise RegistryError(Code.METHOD_NOT_ALLOWED, f"HTTP 405 Method Not Allowed: expected {expected}")
    raise RegistryError(Code.NOT_FOUND, "HTTP 404 Not Found")


def _match(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    named: dict[str, str] = {}
    for expected, part in zip(pattern, parts, strict=True):
        if expected.startswith("{") and part:
            named[expected[1:-1]] = unquote(part)
        elif expected != part:
            return None
    return named


def with_alias(found: Found, state: State) -> Found:
    """The same request of the subject that is meant, if it names an alias."""
    if found.row.path.startswith("/schemas/ids") and "subject" in found.query:
        return found._replace(query={**found.query, "subject": [aliased(state, found.query["subject"][0])]})
    if "/subjects/{subject}" in found.row.path:
        return found._replace(named={**found.named, "subject": aliased(state, found.named["subject"])})
    return found


def _in_context(
    prefix: str, row: Row, named: dict[str, str], query: dict[str, list[str]]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """What a request names, and its query, with the subjects in a context."""
    if prefix:
        if "subject" in named or row.path in ("/config", "/mode"):  # of the context itself
            named["subject"] = names.in_context(prefix, named.get("subject", ""))
        for name in ("subject", "subjectPrefix"):
            query[name] = [names.in_context(prefix, query.get(name, [""])[0])]
    return named, query
