"""Requests to the control interface of a node in memory: the endpoint's checks and its answer, without HTTP."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

from broker.testkit.control.app import ENDPOINTS
from broker.testkit.control.endpoint import Endpoint
from broker.testkit.journal import Journal, begin_journal
from tests.doubles.clock import settle
from tests.unit.broker.rig import Rig


async def control(rig: Rig, method: str, path: str, **given: Any) -> Any:
    """The answer's JSON. Raises what the endpoint raises. `given` are parameters, of query or body."""
    endpoint, in_path = _find(method, path)
    answer = endpoint.answer(rig.node, endpoint.check(given, in_path))
    found = await answer if inspect.isawaitable(answer) else answer
    return json.loads(found if isinstance(found, bytes) else json.dumps(found))


async def begin(rig: Rig, method: str, path: str, **given: Any) -> asyncio.Future[Any]:
    """A request whose answer may have to wait."""
    asked = asyncio.ensure_future(control(rig, method, path, **given))
    await settle()
    return asked


def _find(method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
    parts = path.split("/")
    for endpoint in ENDPOINTS:
        pattern = endpoint.path.split("/")
        if endpoint.method != method or len(pattern) != len(parts):
            continue
        pairs = list(zip(pattern, parts, strict=True))
        if all(expected == given or expected.startswith("{") for expected, given in pairs):
            return endpoint, {expected[1:-1]: given for expected, given in pairs if expected.startswith("{")}
    raise LookupError(f"no endpoint {method} {path}")


def keep_journal(rig: Rig) -> Journal:
    """Let the node keep a journal, as it does where there is a control interface."""
    return begin_journal(rig.node)
