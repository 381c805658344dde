"""Requests whose decision makes more bytes of metadata records than the log takes in a batch, or too many records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kio.schema.alter_client_quotas.v1.request import EntityData, EntryData, OpData
from kio.schema.alter_configs.v2.request import AlterableConfig as LegacyConfig
from kio.schema.alter_configs.v2.request import AlterConfigsResource as LegacyResource
from kio.schema.alter_user_scram_credentials.v0.request import ScramCredentialUpsertion
from kio.schema.create_acls.v3.request import AclCreation
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource

from controller import decision
from controller.quorum.metadata_batches import MAX_BATCH_BYTES
from metadata.configs import ResourceType
from tests.unit.broker.rig import Client, Rig

LONGEST_STRING = 32_767
CONFIG = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
Fields = dict[str, Any]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig(config=CONFIG | {"super.users": "User:ANONYMOUS"}) as made:
        yield made


def acls(names: list[str]) -> Fields:
    acl: Fields = {"resource_type": 2, "principal": "User:u", "host": "*", "operation": 3, "permission_type": 3}
    return {"creations": tuple(AclCreation(resource_name=name, **acl) for name in names)}


def quotas(names: list[str]) -> Fields:
    return {
        "entries": tuple(
            EntryData(
                entity=(EntityData(entity_type="user", entity_name=name),),
                ops=(OpData(key="request_percentage", value=1.0, remove=False),),
            )
            for name in names
        ),
        "validate_only": False,
    }


def scram(names: list[str]) -> Fields:
    upsertions = (
        ScramCredentialUpsertion(name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=b"x" * 32)
        for name in names
    )
    return {"deletions": (), "upsertions": tuple(upsertions)}


def client_metrics(names: list[str]) -> Fields:
    return {
        "resources": tuple(
            AlterConfigsResource(
                resource_type=ResourceType.CLIENT_METRICS,
                resource_name=name,
                configs=(AlterableConfig(name="interval.ms", config_operation=0, value="1000"),),
            )
            for name in names
        ),
        "validate_only": False,
    }


def group_configs(names: list[str]) -> Fields:
    return {
        "resources": tuple(
            LegacyResource(
                resource_type=ResourceType.GROUP,
                resource_name=name,
                configs=(LegacyConfig(name="consumer.session.timeout.ms", value="46000"),),
            )
            for name in names
        ),
        "validate_only": False,
    }


REQUESTS = [
    ("create_acls", 3, acls, "results"),
    ("alter_client_quotas", 1, quotas, "entries"),
    ("alter_user_scram_credentials", 0, scram, "results"),
    ("incremental_alter_configs", 1, client_metrics, "responses"),
    ("alter_configs", 2, group_configs, "responses"),
]


async def codes(client: Client, api: str, version: int, fields: Fields, answered: str) -> set[str]:
    answer = await client.ask(api, version, **fields)
    return {each.error_code.name for each in getattr(answer, answered)}


@pytest.mark.parametrize(("api", "version", "fields", "answered"), REQUESTS, ids=[each[0] for each in REQUESTS])
async def test_fat_metadata_records_are_an_invalid_request(
    rig: Rig, api: str, version: int, fields: Callable[[list[str]], Fields], answered: str
) -> None:
    client = rig.connect()
    before = rig.node.cluster.cache.image
    fat = [f"{number:03}".ljust(LONGEST_STRING, "x") for number in range(MAX_BATCH_BYTES // LONGEST_STRING)]
    assert await codes(client, api, version, fields(fat), answered) == {"invalid_request"}
    assert rig.node.cluster.cache.image is before
    assert await codes(client, api, version, fields(["small"]), answered) == {"none"}


@pytest.mark.parametrize(("api", "version", "fields", "answered"), REQUESTS, ids=[each[0] for each in REQUESTS])
async def test_too_many_metadata_records_are_a_policy_violation(
    rig: Rig,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    version: int,
    fields: Callable[[list[str]], Fields],
    answered: str,
) -> None:
    monkeypatch.setattr(decision, "MOST_RECORDS", 3)
    client = rig.connect()
    before = rig.node.cluster.cache.image
    many = fields(list("abcd"))
    assert await codes(client, api, version, many, answered) == {"policy_violation"}
    if "validate_only" in many:
        assert await codes(client, api, version, many | {"validate_only": True}, answered) == {"policy_violation"}
    assert rig.node.cluster.cache.image is before
    assert await codes(client, api, version, fields(list("abc")), answered) == {"none"}
