"""A request to the registry, whoever it comes from, with what it asks; and what it is answered with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from broker.registry import subjects as names
from broker.registry.errors import Code, RegistryError, version_not_found
from broker.registry.records import LARGEST, Schema, Written
from broker.registry.schemas import Schemas
from broker.registry.state import State

LATEST = -1
MOST_LISTED, MOST_SCHEMAS_LISTED = 20_000, 1000
"""Of a list in one answer, as in Confluent's registry; `offset` has the rest."""


class Asked(NamedTuple):
    """`target` is the path with its query, as it came; `body` is the value of its JSON."""

    method: str
    target: str
    body: Any = None


class Answer(NamedTuple):
    status: int
    value: Any


class Change(NamedTuple):
    """Records that a request writes, and its answer once they are written."""

    records: Sequence[Written]
    answer: Any


class Allowed(Protocol):
    """What the user of a request may see and do."""

    def may_see(self, subject: str) -> bool:
        """Whether the user may know of the subject."""


class Defaults(NamedTuple):
    """What the node's settings say."""

    level: str
    mode_may_change: bool
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was understood: `named` are the parts of its path, `query` the values of each parameter."""

    named: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    given: Any
    state: State
    schemas: Schemas
    allowed: Allowed
    defaults: Defaults

    def flag(self, name: str) -> bool:
        """Whether a parameter is true; Python's clients write it with a capital letter."""
        return self.text(name).lower() == "true"

    def text(self, name: str, default: str = "") -> str:
        return self.query.get(name, (default,))[0]

    def integer(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        number = whole_number(text)
        if number is None:
            raise RegistryError(Code.BAD_REQUEST, f"{name} = {text[:100]!r}: expected a whole number")
        return number

    def part_of(self, values: Sequence[Any], most: int = MOST_LISTED) -> list[Any]:
        """The part of a list that `offset` and `limit` ask for, and no more than `most`."""
        first, limit = max(self.integer("offset", 0), 0), self.integer("limit", most)
        return list(values[first : first + (limit if 0 < limit < most else most)])

    @property
    def body(self) -> Mapping[str, Any]:
        """The body. Raises RegistryError if it is no object."""
        if not isinstance(self.given, dict):
            raise RegistryError(Code.UNPROCESSABLE, "The body must be a JSON object")
        return self.given

    @property
    def subject(self) -> str:
        return names.normalized(self.named["subject"])

    @property
    def scope(self) -> str | None:
        """The subject or context that a level or mode is for; None for everything."""
        if "subject" not in self.named or names.parse(self.named["subject"]).is_default_context:
            return None
        return self.subject

    @property
    def version(self) -> int:
        """The version that the path names; `LATEST` for the latest. Raises RegistryError."""
        text = self.named["version"].strip()
        number = LATEST if text.lower() == "latest" else whole_number(text)
        if number is None or not (0 < number <= LARGEST or number == LATEST):
            raise RegistryError(
                Code.INVALID_VERSION,
                f"The specified version '{text[:100]}' is not a valid version id: "
                'expected a number from 1 to 2^31-1, or "latest"',
            )
        return number


def whole_number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= 10 else None


def described(schema: Schema) -> dict[str, Any]:
    """A version as it is answered."""
    made: dict[str, Any] = {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "guid": schema.guid,
        "schemaType": schema.kind,
    }
    if schema.references:
        made["references"] = [reference.as_json for reference in schema.references]
    made |= {name: schema.value[name] for name in ("metadata", "ruleSet") if schema.value.get(name) is not None}
    made["schema"] = schema.text
    if schema.is_deleted:
        made["deleted"] = True
    return made


def existing(call: Call, *, deleted: bool, anywhere: bool = False) -> Schema:
    """The version that the path names; with `anywhere`, that of another context will do. Raises RegistryError."""
    for place in places(call) if anywhere else [call.subject]:
        found = call.state.version(place, call.version, deleted=deleted)
        if found is not None:
            return found
    require_subject(call, deleted=deleted)
    raise version_not_found(call.version)


def places(call: Call) -> list[str]:
    """The subject, and after one of the default context those of its name in others."""
    subject = names.parse(call.subject)
    others = sorted(call.state.contexts) if subject.context == names.DEFAULT else []
    return [call.subject, *(names.Subject(context, subject.name).text for context in others)]


def require_subject(call: Call, *, deleted: bool) -> None:
    """Raises RegistryError if there is no such subject."""
    if not call.state.versions(call.subject, deleted=deleted):
        raise RegistryError(Code.SUBJECT_NOT_FOUND, f"Subject '{call.subject}' not found.")
