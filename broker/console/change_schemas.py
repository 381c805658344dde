"""Changes of the node's own registry, which says itself what the console's user may do (`broker.registry.rights`)."""

from __future__ import annotations

import re
from typing import Any

from broker.console.ask import Ask, Done
from broker.console.registry import OwnRegistry
from broker.console.schemas import INHERITED, KINDS, registry_of
from broker.testkit.control.endpoint import ControlError
from odradek.schemas.rest import LEVELS, MODES, setting_path, subject_path
from odradek.schemas.texts import readable

LARGEST_BYTES = 1 << 20
FITS = "The schema fits: it was not registered."
REFERENCE = re.compile(r"(?P<name>[^=\s]+)\s*=\s*(?P<subject>.+?)(?::(?P<version>[0-9]+))?")


def _own(ask: Ask) -> OwnRegistry:
    """Raises ControlError if the node has no registry of its own."""
    registry = registry_of(ask)
    if not isinstance(registry, OwnRegistry):
        raise ControlError(
            "the schema registry is another one, which the console only shows: odradek registry -r URL changes it",
            status=409,
        )
    return registry


async def _ask(ask: Ask, method: str, path: str, body: Any = None, **query: str) -> Any:
    """The answer of the registry. Raises ControlError with what it says."""
    status, value = await _own(ask).ask(method, path, body, **query)
    if status != 200:
        raise ControlError(f"{value['message']} ({value['error_code']})", status=status)
    return value


async def register(ask: Ask) -> Done:
    """Register the schema, or only see whether it fits: then what was typed is shown again."""
    subject, text = ask.needed("subject"), ask.given.get("text", "").replace("\r\n", "\n")
    if not text.strip():
        raise ControlError("the schema is missing", parameter="text")
    body = {"schemaType": ask.choice("type", KINDS), "schema": text, "references": _references(ask.text("references"))}
    await _require_fits(ask, subject, body)
    if ask.text("do") == "check":
        return Done(ask.typed("subject"), FITS)
    found = await _ask(ask, "POST", subject_path(subject, "versions"), body)
    return Done({"subject": subject, "version": int(found["version"])})


async def _require_fits(ask: Ask, subject: str, body: object) -> None:
    """Raises ControlError that says rule by rule why the schema may not follow those of the subject."""
    path = f"/compatibility{subject_path(subject, 'versions')}"
    found = await _ask(ask, "POST", path, body, verbose="true")
    if not found["is_compatible"]:
        raise ControlError(f"it does not fit: {'; '.join(readable(found['messages']))}", parameter="text", status=409)


def _references(text: str) -> list[dict[str, object]]:
    """A line for each: NAME=SUBJECT:VERSION, or the latest without a version. Raises ControlError."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        match = REFERENCE.fullmatch(line)
        if match is None:
            raise ControlError(f"references: {line!r}: expected NAME=SUBJECT:VERSION on each line")
        version = int(match["version"]) if match["version"] else -1
        found.append({"name": match["name"], "subject": match["subject"], "version": version})
    return found


async def delete(ask: Ask) -> Done:
    """Delete a version, or without one the subject; `permanent` follows where it is soft-deleted."""
    subject, version = ask.needed("subject"), ask.integer("version", 0, most=(1 << 31) - 1)
    path = subject_path(subject, "versions", version) if version else subject_path(subject)
    await _ask(ask, "DELETE", path, **({"permanent": "true"} if ask.text("permanent") else {}))
    return Done({"subject": subject} if version else {}, back="" if version else "schemas")


async def set_level(ask: Ask) -> Done:
    """Set or unset the level and the mode of a subject, or else of all."""
    _own(ask)
    subject = ask.given.get("subject", "")
    for kind, name, field, choices in (
        ("config", "level", "compatibility", LEVELS),
        ("mode", "mode", "mode", MODES),
    ):
        if not ask.text(name):
            continue
        wanted, now = ask.choice(name, (*choices, INHERITED)), ask.text(f"{name}_now")
        if wanted == now:
            continue
        path = setting_path(kind, subject or None)
        if wanted == INHERITED:
            await _ask(ask, "DELETE", path)
        else:
            await _ask(ask, "PUT", path, {field: wanted})
    return Done({"subject": subject} if subject else {}, back="schema" if subject else "schemas")
