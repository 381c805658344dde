"""The guard before the handlers of a whole node, in virtual time: what the matrix beside Kafka does not show."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from kio.schema.create_acls.v3.request import AclCreation
from kio.schema.delete_acls.v3.request import DeleteAclsFilter
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.metadata.v12.request import MetadataRequestTopic

from broker.network.request import ANONYMOUS, Principal
from metadata.acls import AclOperation, PatternType, PermissionType, ResourceType
from protocol.api.table import API_TABLE
from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import batch, fetch, produce

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


@asynccontextmanager
async def node(**config: str) -> AsyncIterator[Rig]:
    async with Rig(config=SETTINGS | {name.replace("_", "."): value for name, value in config.items()}) as rig:
        await rig.create("t")
        yield rig


def client_of(rig: Rig, principal: Principal = ALICE) -> Client:
    client = rig.connect()
    client.connection.principal = principal
    return client


async def allow(
    rig: Rig,
    operation: AclOperation,
    name: str = "t",
    resource_type: ResourceType = TOPIC,
    permission: PermissionType = PermissionType.ALLOW,
    principal: Principal = ALICE,
) -> None:
    created = AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=str(principal),
        host="*",
        operation=operation,
        permission_type=permission,
    )
    answer = await client_of(rig, ANONYMOUS).ask("create_acls", 3, creations=(created,))
    assert [one.error_code.name for one in answer.results] == ["none"]


async def revoke_all(rig: Rig) -> None:
    every = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    await client_of(rig, ANONYMOUS).ask("delete_acls", 3, filters=(every,))


async def produced(client: Client) -> str:
    answer = await client.ask("produce", 9, **produce("t", {0: batch(b"a")}))
    code: str = answer.responses[0].partition_responses[0].error_code.name
    return code


async def fetched(client: Client) -> str:
    answer = await client.ask("fetch", 12, **fetch([("t", 0, 0)]))
    code: str = answer.responses[0].partitions[0].error_code.name
    return code


async def test_a_right_counts_as_soon_as_it_is_given_and_until_it_is_taken_away() -> None:
    async with node() as rig:
        client = client_of(rig)
        assert await produced(client) == "topic_authorization_failed"
        await allow(rig, WRITE)
        assert await produced(client) == "none"
        assert await fetched(client) == "topic_authorization_failed"
        await revoke_all(rig)
        assert await produced(client) == "topic_authorization_failed"
        assert rig.node.replicas.get("t", 0).log_end_offset == 1


async def test_a_repeated_request_is_checked_each_time() -> None:
    async with node() as rig:
        client = client_of(rig)
        await allow(rig, READ, "g", GROUP)
        beat: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
        assert (await client.ask("heartbeat", 4, **beat)).error_code.name == "not_coordinator"
        await revoke_all(rig)
        assert (await client.ask("heartbeat", 4, **beat)).error_code.name == "group_authorization_failed"


async def test_a_session_of_fetches_is_checked_each_time() -> None:
    async with node() as rig:
        client = client_of(rig)
        await allow(rig, READ)
        first = await client.ask("fetch", 12, **fetch([("t", 0, 0)], session_id=0, session_epoch=0, max_wait_ms=0))
        assert first.responses[0].partitions[0].error_code.name == "none"
        await revoke_all(rig)
        next_one = fetch([("t", 0, 0)], session_id=first.session_id, session_epoch=1, max_wait_ms=0) | {"topics": ()}
        second = await client.ask("fetch", 12, **next_one)
        assert second.responses[0].partitions[0].error_code.name == "topic_authorization_failed"


async def test_a_fetch_that_waits_is_answered_though_the_right_is_taken_away() -> None:
    async with node() as rig:
        client = client_of(rig)
        await allow(rig, READ)
        client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=5_000, min_bytes=1))
        await settle()
        await revoke_all(rig)
        assert await produced(client_of(rig, ANONYMOUS)) == "none"
        await settle()
        assert len(client.replies()) == 1


async def test_rights_survive_a_crash() -> None:
    async with node() as rig:
        await allow(rig, WRITE)
        following = await rig.crash()
        assert await produced(client_of(following)) == "none"
        assert await produced(client_of(following, BOB)) == "topic_authorization_failed"
        await following.stop()


async def test_allow_everyone_if_no_acl_found_opens_what_no_acl_concerns() -> None:
    async with node(allow_everyone_if_no_acl_found="true") as rig:
        assert await produced(client_of(rig)) == "none"
        await allow(rig, WRITE, principal=BOB)
        assert await produced(client_of(rig)) == "topic_authorization_failed"


async def test_a_principal_that_changes_has_other_rights() -> None:
    async with node() as rig:
        await allow(rig, WRITE)
        client = client_of(rig, BOB)
        assert await produced(client) == "topic_authorization_failed"
        client.connection.principal = ALICE
        assert await produced(client) == "none"


async def test_a_topic_of_which_nothing_may_be_known_is_not_created() -> None:
    async with node() as rig:
        await allow(rig, DESCRIBE, "new")
        client = client_of(rig)
        asked = tuple(MetadataRequestTopic(topic_id=None, name=name) for name in ("new", "newer"))
        answer = await client.ask("metadata", 12, topics=asked, allow_auto_topic_creation=True,
                                  include_topic_authorized_operations=False)  # fmt: skip
        assert [one.error_code.name for one in answer.topics] == ["topic_authorization_failed"] * 2
        await rig.clock.run(1_000)
        assert rig.node.cluster.cache.topic("new") is None


async def test_a_failure_of_what_is_allowed_says_nothing_else_of_what_is_not() -> None:
    """As if each had been asked alone."""
    async with node() as rig:
        await rig.create("u")
        await allow(rig, AclOperation.DELETE)
        client = client_of(rig)
        answer = await client.ask(
            "delete_records", 2, topics=tuple(delete_records("t", "u")), timeout=timedelta(seconds=1)
        )
        assert {one.name: one.partitions[0].error_code.name for one in answer.topics} == {
            "t": "offset_out_of_range",
            "u": "topic_authorization_failed",
        }


def delete_records(*names: str) -> Iterator[Any]:
    for name in names:
        yield DeleteRecordsTopic(name=name, partitions=(DeleteRecordsPartition(partition_index=0, offset=9),))


async def test_without_an_authorizer_handlers_are_called_themselves() -> None:
    async with Rig() as rig:
        for api in API_TABLE:
            route = rig.node.dispatcher.route(api.key)
            handler = route.load()
            assert route.handle == handler.handle, api.name
