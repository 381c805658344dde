"""Actions of the console are refused to whom Kafka's APIs refuse the same (ACLs)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kio.schema.alter_share_group_offsets.v0.request import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
from kio.schema.offset_delete.v0.request import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic

from broker.authorization.console_table import ASKED_BY_ACTIONS
from broker.console.actions import ACTIONS
from metadata.acls import AclOperation
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.rights import (
    CLUSTER,
    GROUP,
    RETENTION,
    SETTINGS,
    TOPIC,
    Acl,
    client_of_anna,
    filled,
    grants,
    set_acls,
)
from tests.unit.broker.console.test_login import log_in
from tests.unit.broker.members import commit
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.share.members import CONFIG as SHARE_CONFIG
from tests.unit.broker.transactions import Producer
from tests.unit.broker.wire import batch, produce

FORMS: dict[str, dict[str, str]] = {
    "produce-record": {"topic": "told-a", "value": "v"},
    "add-partitions": {"topic": "told-a", "partitions": "2"},
    "alter-topic-config": {"topic": "told-a", "key": "retention.ms", "value": RETENTION["told-a"]},
    "register-schema": {"subject": "told-a-value", "text": '"int"'},
    "delete-schema": {"subject": "told-a-value"},
    "set-schema-level": {"subject": "told-a-value", "level": "FULL"},
    "alter-broker-config": {"key": "message.max.bytes", "value": "1000000"},
    "move-replicas": {"topic": "told-a", "brokers": "1"},
    "cancel-move": {"topic": "told-a", "partition": "0"},
    "elect-leaders": {"topic": "told-a"},
    "add-acl": {"principal": "User:x", "name": "told-x"},
    "delete-acl": {"principal": "User:x", "name": "told-x"},
    "set-password": {"user": "told-new", "password": "p", "again": "p"},
    "delete-password": {"user": "told-new"},
    "set-quota": {"client": "told-new", "key": "request_percentage", "value": "90"},
    "create-token": {},
    "renew-token": {"id": "told-no-token"},
    "expire-token": {"id": "told-no-token"},
    "delete-offsets": {"group": "told-old", "topic": "told-b"},
    "truncate-topic": {"topic": "told-a", "partition": "0", "before": "1"},
    "abort-transaction": {"transactional_id": "told-till"},
    "reset-offsets": {"group": "told-old", "to": "earliest"},
    "delete-group": {"group": "told-old"},
    "delete-topic": {"topic": "told-a"},
    "create-topic": {"topic": "told-new"},
    "remove-fault": {"id": ""},
    "advance-clock": {"seconds": "1"},
}


REFUSED_AFTERWARDS = {
    "advance-clock": (409, "clock"),  # this node's cannot be moved
    "cancel-move": (409, "NO_REASSIGNMENT_IN_PROGRESS"),
    "register-schema": (409, "no schema registry"),
    "delete-schema": (409, "no schema registry"),
    "set-schema-level": (409, "no schema registry"),
    "renew-token": (404, "there is no token"),
    "expire-token": (404, "there is no token"),
}
"""What the user may do, and cannot be done."""

HARMLESS = {"create-topic", "produce-record", "add-partitions", "alter-topic-config", "truncate-topic", "reset-offsets"}
"""What is asked of their APIs changes nothing that the test looks at."""


async def refused_by_api(rig: Rig, action: str) -> bool:
    """Whether the API that does the same refuses anna."""
    client, minute = client_of_anna(rig), timedelta(minutes=1)
    if action == "reset-offsets":
        codes = [await commit(client, "told-old", name, {0: 1}) for name in RETENTION]
        return "authorization_failed" in str(codes)
    if action == "abort-transaction":
        return "authorization_failed" in await Producer(client, "told-till").init()
    new = CreatableTopic(name="told-new", num_partitions=1, replication_factor=1, assignments=(), configs=())
    before = DeleteRecordsTopic(name="told-a", partitions=(DeleteRecordsPartition(partition_index=0, offset=0),))
    more = CreatePartitionsTopic(name="told-a", count=2, assignments=None)
    config = AlterableConfig(name="retention.ms", config_operation=0, value=RETENTION["told-a"])
    resource = AlterConfigsResource(resource_type=2, resource_name="told-a", configs=(config,))
    forgotten = OffsetDeleteRequestTopic(name="told-b", partitions=(OffsetDeleteRequestPartition(partition_index=0),))
    asked: dict[str, tuple[str, int, dict[str, Any]]] = {
        "produce-record": ("produce", 9, produce("told-a", {0: batch(b"v")})),
        "add-partitions": (
            "create_partitions",
            3,
            {"topics": (more,), "timeout": minute, "validate_only": True},
        ),
        "alter-topic-config": ("incremental_alter_configs", 1, {"resources": (resource,), "validate_only": True}),
        "delete-offsets": ("offset_delete", 0, {"group_id": "told-old", "topics": (forgotten,)}),
        "create-topic": ("create_topics", 7, {"topics": (new,), "timeout": minute, "validate_only": True}),
        "delete-topic": (
            "delete_topics",
            6,
            {"topics": (DeleteTopicState(name="told-a", topic_id=None),), "timeout": minute},
        ),
        "truncate-topic": ("delete_records", 2, {"topics": (before,), "timeout": minute}),
        "delete-group": ("delete_groups", 2, {"groups_names": ("told-old",)}),
    }
    api, version, fields = asked[action]
    return "authorization_failed" in str(await client.ask(api, version, **fields))


def needed_by(action: str) -> list[Acl]:
    """The rights for its form."""
    form = FORMS[action]
    found: list[Acl] = []
    for right in ASKED_BY_ACTIONS[action].needed:
        named = form.get(right.named or "")
        found += grants(right, [named] if named else None)
    return found


async def test_actions_are_refused_unless_all_their_rights_are_there() -> None:
    assert FORMS.keys() == ACTIONS.keys()
    async with filled() as (rig, browser):
        assert rig.node.faults is not None
        (fault,) = list(rig.node.faults)
        for action, fields in FORMS.items():
            form = {**fields, "id": fault.id} if action == "remove-fault" else fields
            needed = needed_by(action)
            assert needed or ASKED_BY_ACTIONS[action].needed == (), action
            implied = {(AclOperation.DESCRIBE, *acl[1:]) for acl in needed if acl[0] is not AclOperation.DESCRIBE}
            for without in (*([needed] if needed else ()), *([acl] for acl in needed if acl not in implied)):
                set_acls(rig, [acl for acl in needed if acl not in without and acl not in implied])
                text = await browser.post(f"/{action}", 403, **form)
                assert "User:anna may not" in text, (action, without)
                if ASKED_BY_ACTIONS[action].needed[0].resource_type is not CLUSTER:
                    assert await refused_by_api(rig, action), (action, without)
            set_acls(rig, needed)
            if action in HARMLESS:
                assert not await refused_by_api(rig, action), action
            if action in REFUSED_AFTERWARDS:
                status, said = REFUSED_AFTERWARDS[action]
                assert said in await browser.post(f"/{action}", status, **form)
            else:
                await browser.post(f"/{action}", 303, **form)


async def test_refusals_tell_no_names_that_the_user_may_not_know() -> None:
    read, delete, create = AclOperation.READ, AclOperation.DELETE, AclOperation.CREATE
    async with filled() as (rig, browser):
        set_acls(rig, [(read, GROUP, "told-old"), (read, TOPIC, "told-a")])
        text = await browser.post("/reset-offsets", 403, group="told-old", to="earliest")
        assert "may not see: name the topic" in text
        assert "told-b" not in text
        set_acls(rig, [(delete, TOPIC, "told-"), (create, TOPIC, "told-b")])
        assert "did you mean" not in await browser.post("/delete-topic", 404, topic="told-")
        assert "TOPIC_ALREADY_EXISTS" in await browser.post("/create-topic", 409, topic="told-b", partitions="5")
        set_acls(rig, [(delete, GROUP, "told-news")])
        text = await browser.post("/delete-group", 409, group="told-news")
        assert "has members" in text
        assert "told-reader" not in text


async def refused_to_alter(client: Client, names: Iterable[str]) -> bool:
    """Whether AlterShareGroupOffsets refuses the client; if not, the group begins at the start of these topics."""
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topics = tuple(AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=(partition,)) for name in names)
    answer = await client.ask("alter_share_group_offsets", 0, group_id="told-sharers", topics=topics)
    codes = {answer.error_code.name, *(one.error_code.name for topic in answer.responses for one in topic.partitions)}
    assert codes <= {"none", "topic_authorization_failed", "group_authorization_failed"}
    return codes != {"none"}


async def test_a_share_group_is_reset_by_whom_alter_share_group_offsets_lets_reset_all_its_topics() -> None:
    read, describe = AclOperation.READ, AclOperation.DESCRIBE
    group, a, b = (read, GROUP, "told-sharers"), (read, TOPIC, "told-a"), (read, TOPIC, "told-b")
    every = {"group": "told-sharers", "to": "earliest"}
    one = {**every, "topic": "told-a"}
    async with Rig(config={**SETTINGS, **SHARE_CONFIG}) as rig:
        for topic in RETENTION:
            await rig.create(topic)
        await rig.node.coordinators.groups.ensure_topic()
        assert not await refused_to_alter(rig.connect(), RETENTION)
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            await log_in(browser, "anna", "a=,secret")
            for acls in ([], [a, b], [(describe, GROUP, "told-sharers"), a, b]):
                set_acls(rig, acls)
                assert (
                    "may not read the group told-sharers"
                    in (await browser.post("/reset-offsets", 403, **every)).lower()
                )
                assert await refused_to_alter(client_of_anna(rig), RETENTION)
            for acls, text in (
                ([group], "name the topic to reset"),
                ([group, a], "name the topic to reset"),
                ([group, a, (describe, TOPIC, "told-b")], "may not read the topic told-b"),
            ):
                set_acls(rig, acls)
                told = await browser.post("/reset-offsets", 403, **every)
                assert text in told.lower()
                assert "told-b" not in told or "told-b" in text
                assert await refused_to_alter(client_of_anna(rig), RETENTION)
            set_acls(rig, [group, a])
            await browser.post("/reset-offsets", 303, **one)
            assert "may not" in await browser.post("/reset-offsets", 403, **one | {"topic": "told-b"})
            assert not await refused_to_alter(client_of_anna(rig), ["told-a"])
            set_acls(rig, [group, a, b])
            await browser.post("/reset-offsets", 303, **every)
            assert not await refused_to_alter(client_of_anna(rig), RETENTION)
