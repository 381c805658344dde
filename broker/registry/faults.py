"""What faults that a test has set do to requests of the registry's clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from aiohttp import web

from broker.faults.registry_calls import call_of
from broker.faults.spec import Drop

if TYPE_CHECKING:
    from broker.faults.faults import Faults

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


async def struck(
    request: web.Request, faults: Faults, ordinary: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """The answer after all delays: that of the first fault that has one, or the ordinary one, if it is not lost."""
    path = request.raw_path.partition("?")[0]
    subject = _subject(path) or request.query.get("subject", "")  # with which serializers ask for an id
    found = faults.registry.struck(call_of(request.method, path), subject)
    for fault in found:
        if fault.delay_ms:
            await faults.around.clock.sleep(fault.delay_ms)
    for fault in found:
        if fault.error is not None:
            status = fault.error if fault.error < 1000 else fault.error // 100
            text = {"error_code": fault.error, "message": f"a fault of the test ({fault.id})"}
            return web.json_response(text, status=status, content_type=MEDIA_TYPE)
    lost = [fault.drop for fault in found if fault.drop is not None]
    answer = None if Drop.REQUEST in lost else await ordinary(request)
    if answer is None or lost:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()
    return answer


def _subject(path: str) -> str:
    """The subject that a path names; empty if it names none."""
    parts = path.strip("/").split("/")
    at = next((at for at, part in enumerate(parts) if part in ("subjects", "config", "mode")), len(parts))
    return unquote(parts[at + 1]) if at + 1 < len(parts) else ""
