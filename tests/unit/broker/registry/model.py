"""What a registry must answer: a small model of subjects, versions, ids and levels, and random calls for both.

Schemas are Avro's records, told by their fields: a reader needs each field of its own in what was written, unless that
has a default. So the model knows by itself which schema may follow which.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any, NamedTuple

from tests.unit.broker.registry.rig import body, record

SUBJECTS = ("orders-value", "mails-value", "bills-key")
FIELDS = (("", "a:int", "a:int=1"), ("", "b:int", "b:int=1"), ("", "c:int=1", "c:int=2", "c:int=3"))
LEVELS = ("NONE", "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE")
NO_SUBJECT, NO_VERSION, NO_SCHEMA = 40401, 40402, 40403
SUBJECT_GONE, SUBJECT_THERE, VERSION_GONE, VERSION_THERE = 40404, 40405, 40406, 40407
INCOMPATIBLE, NO_LEVEL = 40901, 40408

Shape = tuple[str, ...]
"""The fields of a schema."""

SHAPES: tuple[Shape, ...] = tuple(filter(None, (tuple(filter(None, fields)) for fields in product(*FIELDS))))
TEXTS = {shape: json.dumps(record(*shape), separators=(",", ":")) for shape in SHAPES}


class Call(NamedTuple):
    """A request: what is done to which subject, with what."""

    what: str
    subject: str = ""
    shape: Shape = ()
    version: int | str = "latest"
    flag: bool = False
    level: str = ""
    id: int = 0

    @property
    def request(self) -> tuple[str, str, Any]:
        """Method, path and body."""
        schema = body(TEXTS[self.shape]) if self.shape else {"compatibility": self.level} if self.level else None
        subject, flag = self.subject, str(self.flag).lower()
        method, path = REQUESTS[self.what].format(subject=subject, version=self.version, flag=flag, id=self.id).split()
        return method, path.rstrip("/"), schema if method in ("POST", "PUT") else None


REQUESTS = {
    "register": "POST /subjects/{subject}/versions",
    "look_up": "POST /subjects/{subject}?deleted={flag}",
    "check": "POST /compatibility/subjects/{subject}/versions",
    "subjects": "GET /subjects?deleted={flag}",
    "versions": "GET /subjects/{subject}/versions?deleted={flag}",
    "version": "GET /subjects/{subject}/versions/{version}?deleted={flag}",
    "by_id": "GET /schemas/ids/{id}",
    "uses": "GET /schemas/ids/{id}/versions?deleted={flag}",
    "delete_subject": "DELETE /subjects/{subject}?permanent={flag}",
    "delete_version": "DELETE /subjects/{subject}/versions/{version}?permanent={flag}",
    "level": "GET /config/{subject}",
    "set_level": "PUT /config/{subject}",
}


@dataclass(slots=True)
class Version:
    shape: Shape
    id: int
    deleted: bool = False


class RefusedError(Exception):
    """The error code of an answer."""


@dataclass
class Model:
    """`highest` is the largest id that was ever given."""

    subjects: dict[str, dict[int, Version]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    highest: int = 0

    def after(self, call: Call) -> Model:
        """The model once the call has been made."""
        changed = deepcopy(self)
        changed.answer(call)
        return changed

    def answer(self, call: Call) -> Any:
        """What the call has to be answered, as `seen` has it, and do it; an error code if it is refused."""
        try:
            return getattr(self, f"_{call.what}")(call)
        except RefusedError as error:
            return error.args[0]

    # -- changes

    def _register(self, call: Call) -> Any:
        versions = self.subjects.get(call.subject, {})
        live = {number: each for number, each in versions.items() if not each.deleted}
        same = [number for number, each in live.items() if each.shape == call.shape]
        if same:
            return {"id": live[same[-1]].id, "version": same[-1]}
        if not self._fits(call, [each.shape for each in live.values()]):
            raise RefusedError(INCOMPATIBLE)
        number = max(versions, default=0) + 1
        schema_id = self._id_of(call.shape) or self.highest + 1
        self.highest = max(self.highest, schema_id)
        kept = {at: each for at, each in versions.items() if not (each.deleted and each.id == schema_id)}
        self.subjects[call.subject] = {**kept, number: Version(call.shape, schema_id)}
        return {"id": schema_id, "version": number}

    def _id_of(self, shape: Shape) -> int | None:
        return next((each.id for _, _, each in self.all() if each.shape == shape), None)

    def _delete_subject(self, call: Call) -> Any:
        versions = self.subjects.get(call.subject)
        if not versions:
            raise RefusedError(NO_SUBJECT)
        live = [number for number, each in versions.items() if not each.deleted]
        if not call.flag and not live:
            raise RefusedError(SUBJECT_GONE)
        if call.flag and live:
            raise RefusedError(SUBJECT_THERE)
        if call.flag:
            self._forget(call.subject, list(versions))
            return list(versions)
        for number in live:
            versions[number].deleted = True
        return live

    def _delete_version(self, call: Call) -> Any:
        number, found = self._found(call, deleted=True)
        if found.deleted and not call.flag:
            raise RefusedError(VERSION_GONE)
        if call.flag and not found.deleted:
            raise RefusedError(VERSION_THERE)
        if call.flag:
            self._forget(call.subject, [number])
        found.deleted = True
        return number

    def _forget(self, subject: str, numbers: list[int]) -> None:
        left = {number: each for number, each in self.subjects[subject].items() if number not in numbers}
        self.subjects[subject] = left
        if not left:
            del self.subjects[subject]
            self.levels.pop(subject, None)

    def _set_level(self, call: Call) -> Any:
        self.levels[call.subject] = call.level
        return {"compatibility": call.level}

    # -- reads

    def all(self) -> Iterator[tuple[str, int, Version]]:
        for subject, versions in self.subjects.items():
            for number, each in versions.items():
                yield subject, number, each

    def _some(self, subject: str, *, deleted: bool) -> dict[int, Version]:
        """The versions of a subject that there is."""
        versions = self.subjects.get(subject, {})
        found = {number: each for number, each in versions.items() if deleted or not each.deleted}
        if not found:
            raise RefusedError(NO_SUBJECT)
        return found

    def _found(self, call: Call, *, deleted: bool) -> tuple[int, Version]:
        some = self._some(call.subject, deleted=deleted)
        if call.version == "latest":
            number = max((at for at, each in some.items() if not each.deleted), default=0)
        else:
            number = int(call.version)
        if number not in some:
            raise RefusedError(NO_VERSION)
        return number, some[number]

    def _look_up(self, call: Call) -> Any:
        some = self._some(call.subject, deleted=call.flag)
        same = [number for number, each in some.items() if each.shape == call.shape]
        if not same:
            raise RefusedError(NO_SCHEMA)
        return {"id": some[same[-1]].id, "version": same[-1]}

    def _check(self, call: Call) -> Any:
        live = [each.shape for each in self.subjects.get(call.subject, {}).values() if not each.deleted]
        return {"is_compatible": self._fits(call, live)}

    def _fits(self, call: Call, live: list[Shape]) -> bool:
        level = self.levels.get(call.subject) or self.levels.get("") or "BACKWARD"
        kind, _, transitive = level.partition("_")
        return all(
            (kind not in ("BACKWARD", "FULL") or can_read(call.shape, other))
            and (kind not in ("FORWARD", "FULL") or can_read(other, call.shape))
            for other in (live if transitive else live[-1:])
        )

    def _subjects(self, call: Call) -> Any:
        return sorted({subject for subject, _, each in self.all() if call.flag or not each.deleted})

    def _versions(self, call: Call) -> Any:
        return list(self._some(call.subject, deleted=call.flag))

    def _version(self, call: Call) -> Any:
        number, found = self._found(call, deleted=call.flag)
        return {"id": found.id, "version": number, "schema": TEXTS[found.shape]}

    def _by_id(self, call: Call) -> Any:
        for _, _, each in self.all():
            if each.id == call.id:
                return {"schema": TEXTS[each.shape]}
        raise RefusedError(NO_SCHEMA)

    def _uses(self, call: Call) -> Any:
        if all(each.id != call.id for _, _, each in self.all()):
            raise RefusedError(NO_SCHEMA)
        return sorted(
            (subject, number)
            for subject, number, each in self.all()
            if each.id == call.id and (call.flag or not each.deleted)
        )

    def _level(self, call: Call) -> Any:
        if call.subject not in self.levels and call.subject:
            raise RefusedError(NO_LEVEL)
        return {"compatibilityLevel": self.levels.get(call.subject, "BACKWARD")}


def can_read(reader: Shape, writer: Shape) -> bool:
    written = {each[0] for each in writer}
    return all("=" in each or each[0] in written for each in reader)


def seen(call: Call, status: int, value: Any) -> Any:
    """An answer, as the model has it."""
    if status != 200:
        return value["error_code"]
    if call.what == "uses":
        return sorted((each["subject"], each["version"]) for each in value)
    if isinstance(value, dict):
        names = {
            "register": ("id", "version"),
            "look_up": ("id", "version"),
            "version": ("id", "version", "schema"),
            "by_id": ("schema",),
        }
        return {name: value[name] for name in names.get(call.what, value)}
    return value


CHANGES = ("register",) * 8 + ("delete_version",) * 5 + ("delete_subject", "set_level")
READS = ("look_up", "check", "subjects", "versions", "version", "by_id", "uses", "level")


def random_call(random: Random, model: Model) -> Call:
    """A call about subjects, versions and ids, most of which there are; often about the last one."""
    subject, flag = random.choice(SUBJECTS), random.random() < 0.5
    what = random.choice(CHANGES + READS)
    last = [each for each in model.all() if each[2].id == model.highest]
    if last and what == "delete_version" and random.random() < 0.5:
        return Call(what, last[0][0], version=last[0][1], flag=last[0][2].deleted)
    versions = model.subjects.get(subject, {})
    some: list[int | str] = [number for number, each in versions.items() if each.deleted == flag]
    return Call(
        what,
        "" if what in ("set_level", "level") and random.random() < 0.2 else subject,
        random.choice(SHAPES) if what in ("register", "look_up", "check") else (),
        random.choice([*some, random.choice(("latest", 1, 9))]),
        flag,
        random.choice(LEVELS),
        random.randint(1, model.highest + 1),
    )


def forget_the_last(model: Model) -> Iterator[Call]:
    """Calls after which nothing has the largest id, which may be given to nobody else."""
    for subject, number, each in [each for each in model.all() if each[2].id == model.highest]:
        if not each.deleted:
            yield Call("delete_version", subject, version=number)
        yield Call("delete_version", subject, version=number, flag=True)


def new_schema(model: Model) -> Call:
    """A registration that needs a new id, at whatever level."""
    known = {each.shape for _, _, each in model.all()}
    return Call("register", "new-value", next(shape for shape in SHAPES if shape not in known))


def all_reads(model: Model) -> Iterable[Call]:
    """All that can be asked of what the model has, and some more."""
    for flag in (False, True):
        yield Call("subjects", flag=flag)
        for subject in SUBJECTS:
            yield Call("versions", subject, flag=flag)
            for version in ("latest", *range(1, max(model.subjects.get(subject, {}), default=0) + 2)):
                yield Call("version", subject, version=version, flag=flag)
            yield from (Call("look_up", subject, shape, flag=flag) for shape in SHAPES)
        yield from (Call("uses", id=number, flag=flag) for number in range(1, model.highest + 2))
    yield from (Call("by_id", id=number) for number in range(1, model.highest + 2))
    yield from (Call("level", subject) for subject in ("", *SUBJECTS))
    yield from (Call("check", subject, shape) for subject in SUBJECTS for shape in SHAPES)
