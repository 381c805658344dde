"""An error for each API in each version that is served: it is answered, and the broker meets nothing unexpected."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from protocol.api import messages
from protocol.api.names import API_NAMES
from protocol.api.row import Api
from protocol.api.table import API_TABLE
from protocol.schema import EntityClass, field_plans
from tests.doubles.clock import settle
from tests.unit.broker.faults.breaking import SETTINGS, Breaking, codes
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import answer, entity_frame

WITHOUT_A_PLACE: dict[str, range] = {
    "describe_log_dirs": range(1, 3),
    "metadata": range(10, 14),  # topics by id, and there is none of this id
}
"""Versions whose answers to `full` requests have no place for the error."""


UNREADABLE = ("create_delegation_token", "renew_delegation_token", "expire_delegation_token")
"""APIs whose failed answers have times that kio does not read."""


def full(cls: EntityClass, topic_id: UUID) -> Any:
    """A request in which each list has one item, so that each has a place for an error; ids are that topic's."""
    values: dict[str, Any] = {}
    for plan in field_plans(cls):
        if plan.entity is not None:
            value = full(plan.entity, topic_id)
        elif plan.kind == "string":
            value = "t"
        elif plan.kind == "uuid":
            value = topic_id
        elif plan.name == "acks":
            value = 1
        elif plan.kind == "records":
            value = None
        else:
            value = 1 if "int" in plan.kind and (plan.array or "Acl" in cls.__name__) else plan.default
        values[plan.name] = (value,) if plan.array else value
    return cls(**values)


@pytest.mark.parametrize("api", [api for api in API_TABLE if not api.before_login], ids=lambda api: api.name)
async def test_an_error_is_answered(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Rig(config=SETTINGS) as rig:
        unexpected: list[BaseException] = []
        monkeypatch.setattr(rig.node.dispatcher, "_unexpected", lambda route, ctx, error: unexpected.append(error))
        await rig.create("t", 2)
        topic_id = rig.node.cluster.cache.topic("t").id
        fault = Breaking(rig).set(api=API_NAMES[api.name], error="POLICY_VIOLATION")
        for version in range(api.lowest, api.highest + 1):
            client = rig.connect()
            client.transport.feed(entity_frame(full(messages.request_class(api.key, version), topic_id), 1))
            await settle()
            (reply,) = client.replies()
            if api.name not in UNREADABLE:
                found = codes(answer(reply, api.name, version))
                assert "policy_violation" in found or version in WITHOUT_A_PLACE.get(api.name, ()), version
        assert unexpected == []
        assert fault.hits == api.highest - api.lowest + 1
        assert fault.requests[0]["api"] == API_NAMES[api.name]
