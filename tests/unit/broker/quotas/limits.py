"""Quotas for tests: setting them, and what is answered meanwhile."""

from __future__ import annotations

from typing import Any

from kio.schema.alter_client_quotas.v1.request import EntityData, EntryData, OpData

from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig

METADATA: dict[str, Any] = {
    "topics": (),
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


async def set_quota(rig: Rig, key: str, value: float | None, **entity: str | None) -> None:
    """For `user`, `client_id`, `ip`; None is the default."""
    parts = tuple(EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items())
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    client = rig.connect("192.0.2.1")
    asked = {"entries": (EntryData(entity=parts, ops=(op,)),), "validate_only": False, "client_id": "admin"}
    done = await client.ask("alter_client_quotas", 1, **asked)
    assert [one.error_code.name for one in done.entries] == ["none"]
    client.transport.reset()
    await settle()


async def answered(client: Client) -> int:
    await settle()
    return len(client.replies())
