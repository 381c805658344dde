"""The schema registry: its subjects, and one of them: versions, text, what differs between two, who uses which.

The node's own registry is asked with the rights of the console's user, and says itself what these may see. Of another
one, at a URL that many users share, a user sees the subjects of the topics that he may describe.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import quote

from broker.console.ask import Ask, Values, allowed
from broker.console.registry import AnyRegistry, RegistryError
from broker.console.tables import Column, arranged, numbers, texts
from broker.registry.calls import whole_number
from broker.registry.subjects import parse, topic_of
from broker.testkit.control.endpoint import ControlError
from metadata.acls import ResourceType
from odradek.schemas.rest import LEVELS, MODES, setting_path, subject_path
from odradek.schemas.texts import laid_out

ON_A_PAGE = 50
MOST_VERSIONS = 200
"""So many of the latest versions of a subject are listed."""

MOST_USERS = 50
"""So many ids that refer to a version are looked up."""

MOST_COMPARED = 2000
"""Lines of a text that is compared with another one."""

AROUND = 3
AVRO, JSON, PROTOBUF = KINDS = ("AVRO", "JSON", "PROTOBUF")
INHERITED = "as set above it"
SUBJECTS = (
    Column("subject", "Subject", itemgetter("subject"), of=lambda subject: subject),
    texts("type", "Type"),
    numbers("version", "Version"),
    numbers("id", "Id"),
    texts("topic", "Topic"),
)


class Line(NamedTuple):
    """A line of what differs; `sign` is `+`, `-`, a space, or `@` for a gap."""

    sign: str
    text: str


def registry_of(ask: Ask) -> AnyRegistry:
    """Raises ControlError if there is none."""
    if ask.registry is None:
        raise ControlError(
            "this node has no schema registry, and knows none: schema.registry.listeners makes one, "
            "odradek.console.schema.registry names another",
            status=409,
        )
    return ask.registry


async def get(ask: Ask, path: str) -> Any:
    """What the registry says; None if there is no such thing, or the user may not see it. Raises ControlError."""
    try:
        return await registry_of(ask).get(path)
    except RegistryError as error:
        raise ControlError(str(error), status=502) from error


async def schemas(ask: Ask) -> Values:
    """The subjects that begin as is asked for."""
    if ask.registry is None:
        return {"has_registry": False}
    prefix = ask.given.get("q", "").strip()
    deleted = bool(ask.text("deleted"))
    asked = f"/subjects?subjectPrefix={quote(prefix if prefix.startswith(':') else f':*:{prefix}', safe='')}"
    found = await get(ask, f"{asked}&deleted=true" if deleted else asked)
    names: list[str] = found or []
    if not ask.registry.is_own:
        names = await asyncio.to_thread(_beginning_with, prefix, tuple(names))
        seen = set(await allowed(ask.rights, "metadata", ResourceType.TOPIC, list({*map(topic_of, names)})))
        names = [name for name in names if topic_of(name) in seen]

    async def rows_of(subjects: list[str]) -> list[dict[str, Any]]:
        return [await _subject_row(ask, subject) for subject in subjects]

    order, paging, rows = await arranged(ask, SUBJECTS, names, ON_A_PAGE, rows_of)
    return {
        "has_registry": True,
        "is_own": ask.registry.is_own,
        "q": prefix,
        "deleted": deleted,
        "order": order,
        "paging": paging,
        "rows": rows,
        "kinds": KINDS,
        **(await _settings(ask, None)),
    }


def _beginning_with(prefix: str, names: Sequence[Any]) -> list[str]:
    """Of a registry that may not know the parameter. Any thread."""
    wanted = parse(prefix).name
    return sorted(name for name in map(str, names) if parse(name).name.startswith(wanted))


async def _subject_row(ask: Ask, subject: str) -> dict[str, Any]:
    """A row without a version is one whose versions are all soft-deleted."""
    found = await get(ask, subject_path(subject, "versions", "latest")) or {}
    return {
        "subject": subject,
        "type": found.get("schemaType") or AVRO if found else "",
        "version": found.get("version"),
        "id": found.get("id"),
        "topic": _topic(ask, subject),
    }


def _topic(ask: Ask, subject: str) -> str:
    """The topic that a subject is for, if there is one that the user may see."""
    name = topic_of(subject)
    is_there = ask.node.cluster.cache.topic(name) is not None
    return name if is_there and ask.rights.allow("metadata", ResourceType.TOPIC, name) else ""


async def schema(ask: Ask) -> Values:
    """One subject, with the text of a version; by `id` or `guid` the first subject that has it."""
    if ask.registry is None:
        return {"has_registry": False}
    subject, wanted = await _wanted(ask)
    if not ask.registry.is_own:
        ask.rights.check("metadata", ResourceType.TOPIC, topic_of(subject))
    every = await get(ask, f"{subject_path(subject, 'versions')}?deleted=true") or []
    live = set(await get(ask, subject_path(subject, "versions")) or ())
    number = wanted or (max(live) if live else max(every, default=None))
    if wanted and wanted not in every:
        raise ControlError(f"subject {subject} has no version {wanted}, or you may not see it", status=404)
    shown = None if number is None else await _version(ask, subject, number)
    against = ask.integer("against", 0, most=(1 << 31) - 1)
    if against and against not in every:
        raise ControlError(f"subject {subject} has no version {against}", parameter="against", status=404)
    return {
        "title": subject,
        "has_registry": True,
        "is_own": ask.registry.is_own,
        "subject": subject,
        "topic": _topic(ask, subject),
        "versions": [{"version": one, "deleted": one not in live} for one in reversed(every[-MOST_VERSIONS:])],
        "left_out": max(len(every) - MOST_VERSIONS, 0),
        "shown": None if shown is None else await asyncio.to_thread(_described, shown),
        "is_deleted": number not in live,
        "refers": [] if shown is None else shown.get("references") or [],
        "used_by": [] if shown is None else await _users(ask, subject, int(shown["version"])),
        "against": against,
        "differences": await _differences(ask, subject, shown, against),
        "kinds": KINDS,
        **(await _settings(ask, subject)),
    }


async def _version(ask: Ask, subject: str, number: int) -> Any:
    return await get(ask, f"{subject_path(subject, 'versions', number)}?deleted=true")


async def _wanted(ask: Ask) -> tuple[str, int]:
    """The subject and the version that are asked for, 0 for the latest. Raises ControlError."""
    name = ask.text("id") or ask.text("guid")
    if ask.text("guid"):
        ids = await get(ask, f"/schemas/guids/{quote(name, safe='')}/ids") or [{"id": 0}]
        name = str(ids[0]["id"])
    if name:
        found = await get(ask, f"/schemas/ids/{whole_number(name) or 0}/versions?deleted=true")
        if not found:
            raise ControlError(f"no subject has the schema {name}, or you may see none", status=404)
        return str(found[0]["subject"]), int(found[0]["version"])
    return ask.needed("subject"), ask.integer("version", 0, most=(1 << 31) - 1)


def _described(found: Mapping[str, Any]) -> dict[str, Any]:
    """Any thread: the text may be long."""
    kind = str(found.get("schemaType") or AVRO)
    return {
        "version": int(found["version"]),
        "id": int(found["id"]),
        "guid": str(found.get("guid") or ""),
        "type": kind,
        "text": laid_out(kind, str(found["schema"])),
    }


async def _users(ask: Ask, subject: str, version: int) -> list[dict[str, Any]]:
    """The versions that refer to this one, as far as the user may see them."""
    ids = await get(ask, subject_path(subject, "versions", version, "referencedby")) or []
    found: list[dict[str, Any]] = []
    for schema_id in islice(ids, MOST_USERS):
        for one in await get(ask, f"/schemas/ids/{schema_id}/versions") or ():
            name = str(one["subject"])
            is_seen = registry_of(ask).is_own or ask.rights.allow("metadata", ResourceType.TOPIC, topic_of(name))
            found += [{"subject": name, "version": int(one["version"]), "id": schema_id}] if is_seen else []
    return found


async def _differences(ask: Ask, subject: str, shown: Any, against: int) -> Sequence[Line] | None:
    """What the text that is shown has other than another version's. None: none is asked for."""
    if not against or shown is None:
        return None
    other = await _version(ask, subject, against)
    if other is None:
        return None
    return await asyncio.to_thread(differences, _described(other)["text"], _described(shown)["text"])


def differences(before: str, after: str) -> list[Line]:
    """Line by line. Any thread. Raises ControlError for texts of too many lines."""
    one, other = before.splitlines(), after.splitlines()
    if max(len(one), len(other)) > MOST_COMPARED:
        raise ControlError(f"a text of more than {MOST_COMPARED:,} lines is not compared here", status=413)
    lines = islice(difflib.unified_diff(one, other, lineterm="", n=AROUND), 2, None)
    return [Line("@", "") if line.startswith("@@") else Line(line[0], line[1:]) for line in lines]


async def _settings(ask: Ask, subject: str | None) -> dict[str, Any]:
    """The level and the mode that count for a subject, or for all; and whether they are its own."""
    found: dict[str, Any] = {"levels": (INHERITED, *LEVELS), "modes": (INHERITED, *MODES)}
    for kind in ("config", "mode"):
        path = setting_path(kind, subject)
        counts = await get(ask, f"{path}?defaultToGlobal=true" if subject else path) or {}
        own = await get(ask, path) if subject else counts
        name = "level" if kind == "config" else kind
        found[name] = counts.get("compatibilityLevel") or counts.get("mode") or "–"
        found[f"own_{name}"] = INHERITED if own is None else found[name]
    return found
