"""A node with a registry, in memory and in virtual time, asked without sockets; and schemas for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from broker.registry.calls import Answer, Asked
from broker.registry.registry import Registry
from broker.registry.rights import Rights
from tests.unit.broker.rig import Rig


class Asking:
    """Asks a registry; `rig` has the node."""

    def __init__(self, rig: Rig, registry: Registry | None = None) -> None:
        self.rig = rig
        self.registry = registry or Registry(rig.node)

    async def answer(self, method: str, path: str, body: Any = None, rights: Rights | None = None) -> Answer:
        answer = await self.registry.answer(Asked(method, path, body), rights or Rights())
        return Answer(answer.status, json.loads(json.dumps(answer.value)))  # as it is on the wire

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The value of an answer that must not be an error."""
        answer = await self.answer(method, path, body)
        assert answer.status == 200, answer.value
        return answer.value

    async def code(self, method: str, path: str, body: Any = None) -> int:
        """The error code of an answer that must be an error, whose status goes with it."""
        answer = await self.answer(method, path, body)
        assert answer.status != 200, answer.value
        code: int = answer.value["error_code"]
        assert answer.value["message"]
        assert answer.status == (code if code < 1000 else code // 100)
        return code

    async def register(self, subject: str, schema: Any, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = await self.ask("POST", f"/subjects/{named(subject)}/versions", body(schema, **more))
        return found


def named(subject: str) -> str:
    return quote(subject, safe="")


def body(schema: Any, **more: Any) -> dict[str, Any]:
    return {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}


def record(*fields: str, name: str = "R", **more: Any) -> dict[str, Any]:
    """An Avro record; a field is `name:type`, with a default after `=`."""
    made = []
    for field in fields:
        field_name, _, kind = field.partition(":")
        kind, has_default, default = kind.partition("=")
        made.append({"name": field_name, "type": kind} | ({"default": json.loads(default)} if has_default else {}))
    return {"type": "record", "name": name, "fields": made, **more}


@asynccontextmanager
async def registry(config: Mapping[str, str] | None = None) -> AsyncIterator[Asking]:
    async with Rig(config=config) as rig:
        yield Asking(rig)
