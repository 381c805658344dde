"""A node with all there is to see in its console, a user's rights, and what the APIs tell the same user."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

from kio.schema.alter_client_quotas.v1.request import EntityData, EntryData, OpData
from kio.schema.alter_user_scram_credentials.v0.request import ScramCredentialUpsertion
from kio.schema.create_acls.v3.request import AclCreation
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup

from broker.authorization.console_table import ASKED_BY_ACTIONS, ASKED_BY_PAGES, PageRight
from broker.console.history import History
from broker.network.request import Principal
from broker.testkit.control.faults import faults_of
from controller.scram import ScramMechanism, upsertion
from metadata.acls import CLUSTER_NAME, AclOperation, PatternType, PermissionType, ResourceType
from protocol.api.table import asked_for
from protocol.metadata.credentials import AccessControlEntryRecord
from tests.unit.broker.console.browsing import Browser, browsing
from tests.unit.broker.console.test_login import JAAS, log_in
from tests.unit.broker.console.test_messages import append
from tests.unit.broker.members import CONFIG, ClassicMember, ConsumerMember, commit
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.testkit.control.asking import keep_journal
from tests.unit.broker.transactions import Producer
from tests.unit.broker.wire import fetch

CLUSTER, DELEGATION_TOKEN, GROUP, TOPIC, TRANSACTIONAL_ID, USER = (
    ResourceType.CLUSTER,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.GROUP,
    ResourceType.TOPIC,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.USER,
)
SETTINGS = {
    **CONFIG,
    "listeners": "SASL_PLAINTEXT://:9093",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:otto",
    "odradek.console.write": "true",
    "log.dirs": "/told-folder",
    "delegation.token.secret.key": "a key of this test",
}
NAMES = {
    CLUSTER: [CLUSTER_NAME],
    GROUP: ["told-mail", "told-news", "told-old"],
    TOPIC: ["told-a", "told-b"],
    TRANSACTIONAL_ID: ["told-till", "told-purse"],
    DELEGATION_TOKEN: ["told-no-token"],
    USER: ["User:told-owner"],
}
"""What there is. Each word that begins with `told-`, or is one of these numbers, is looked for in pages and answers."""

RETENTION = {"told-a": "123450001", "told-b": "123450002"}
WORDS = re.compile(r"told-\w+|12345000\d")

PLACES = {
    "topic": ("name", TOPIC),
    "topic-configs": ("name", TOPIC),
    "produce": ("topic", TOPIC),
    "messages": ("topic", TOPIC),
    "message": ("topic", TOPIC),
    "tail": ("topic", TOPIC),
    "download": ("topic", TOPIC),
    "group": ("id", GROUP),
    "transaction": ("id", TRANSACTIONAL_ID),
}
"""The pages about one thing, with the parameter that names it; all others are lists."""

Acl = tuple[AclOperation, ResourceType, str]


def set_acls(rig: Rig, acls: Iterable[Acl]) -> None:
    """Let anna have these rights and no others."""
    assert rig.node.base.authorizer is not None
    rig.node.base.authorizer.load(
        {
            UUID(int=number + 1): AccessControlEntryRecord(
                id=None,
                resource_type=resource_type,
                resource_name=name,
                pattern_type=PatternType.LITERAL,
                principal="User:anna",
                host="*",
                operation=operation,
                permission_type=PermissionType.ALLOW,
            )
            for number, (operation, resource_type, name) in enumerate(acls)
        }
    )


@asynccontextmanager
async def filled() -> AsyncIterator[tuple[Rig, Browser]]:
    """A node with all there is to see, anna's browser, and nobody's ACLs."""
    async with Rig(config=SETTINGS) as rig:
        for topic, retention in RETENTION.items():
            await rig.create(topic, retention_ms=retention)
            append(rig, topic, (b"k", b"told-record_of_" + topic[-1:].encode()))
        keep_journal(rig)
        await ClassicMember(rig, "told-mail", "told-a", "told-b", client_id="told-mailer").enter(
            {"told-a": [0], "told-b": [0]}
        )
        await ConsumerMember(rig, "told-news", "told-a", "told-b", client_id="told-reader").heartbeat()
        for topic in RETENTION:
            await commit(rig.connect(), "told-old", topic, {0: 1})
        await rig.node.coordinators.transactions.ensure_topic()
        for name, topics in (("told-till", ["told-a", "told-b"]), ("told-purse", ["told-b"])):
            producer = Producer(rig.connect(), name)
            assert await producer.init() == "none"
            for topic in topics:
                producer.send(b"held", 0, topic=topic)
                await rig.clock.run(1)
                assert producer.told() == ["none"]
        await _fill_access(rig)
        rig.node.faults = faults_of(rig.node)
        rig.node.faults.set({"api": "Heartbeat", "group": "told-fault", "delay": 2})
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig, History(rig.node)) as browser:
            await log_in(browser, "anna", "a=,secret")
            yield rig, browser


async def _fill_access(rig: Rig) -> None:
    """An ACL, a user, a quota and a token."""
    client = rig.connect()
    acl = AclCreation(
        resource_type=TOPIC,
        resource_name="told-c",
        resource_pattern_type=PatternType.LITERAL,
        principal="User:told-someone",
        host="*",
        operation=AclOperation.READ,
        permission_type=PermissionType.ALLOW,
    )
    new = upsertion("told-user", ScramMechanism.SCRAM_SHA_256, "secret", Random(1))
    user = ScramCredentialUpsertion(
        name="told-user", mechanism=1, iterations=new.iterations, salt=new.salt, salted_password=new.salted_password
    )
    entity = (EntityData(entity_type="client-id", entity_name="told-client"),)
    quota = EntryData(entity=entity, ops=(OpData(key="request_percentage", value=90.0, remove=False),))
    await client.ask("create_acls", 3, creations=(acl,))
    await client.ask("alter_user_scram_credentials", 0, deletions=(), upsertions=(user,))
    await client.ask("alter_client_quotas", 1, entries=(quota,), validate_only=False)
    client.connection.is_forwarded = True  # as if it had authenticated, which this listener does not ask for
    client.connection.principal = Principal("User", "told-owner")
    token = {"owner_principal_type": None, "owner_principal_name": None, "renewers": ()}
    made = await client.ask("create_delegation_token", 3, **token, max_lifetime=timedelta(hours=1))
    assert made.error_code.name == "none"


def client_of_anna(rig: Rig) -> Client:
    client = rig.connect()
    client.connection.principal = Principal("User", "anna")
    client.connection.is_forwarded = True  # as above
    return client


async def told_by_apis(rig: Rig) -> set[str]:
    """The words that anna is told by the APIs, whatever she asks."""
    client = client_of_anna(rig)
    topics, groups = NAMES[TOPIC], NAMES[GROUP]
    configs = tuple(
        DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None) for name in topics
    )
    offsets = tuple(
        OffsetFetchRequestGroup(group_id=one, member_id=None, member_epoch=-1, topics=None) for one in groups
    )
    producers = tuple(TopicRequest(name=name, partition_indexes=(0,)) for name in topics)
    options = {"include_authorized_operations": False}
    broker = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    anything = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    asked: list[tuple[str, int, dict[str, Any]]] = [
        (
            "metadata",
            12,
            {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
        ),
        (
            "describe_configs",
            4,
            {"resources": (*configs, broker), "include_synonyms": True, "include_documentation": False},
        ),
        ("list_groups", 5, {"states_filter": (), "types_filter": ()}),
        ("consumer_group_describe", 1, {"group_ids": tuple(groups), **options}),
        ("offset_fetch", 9, {"groups": offsets, "require_stable": False}),
        ("list_transactions", 0, {"state_filters": (), "producer_id_filters": ()}),
        ("describe_log_dirs", 4, {"topics": None}),
        ("describe_acls", 3, anything),
        ("describe_user_scram_credentials", 0, {"users": None}),
        ("describe_client_quotas", 1, {"components": (), "strict": False}),
        ("describe_delegation_token", 3, {"owners": None}),
        ("fetch", 12, fetch([(name, 0, 0) for name in topics], max_wait_ms=0)),
    ]
    found: set[str] = set()
    for api, version, fields in asked:
        # The names that anna has given herself, which come back with an error, are no news to her.
        found |= news_in(await client.ask(api, version, **fields))
    described = await client.ask("describe_groups", 5, groups=tuple(groups), **options)
    # What the members say to each other has topics in it that an API of names would not tell.
    found |= set(WORDS.findall(str([[one.client_id for one in group.members] for group in described.groups])))
    for answered in (
        (
            await client.ask("describe_transactions", 0, transactional_ids=tuple(NAMES[TRANSACTIONAL_ID]))
        ).transaction_states,
        (await client.ask("describe_producers", 0, topics=producers)).topics,
    ):
        found |= news_in(answered)
    return found


def news_in(answer: Any) -> set[str]:
    """The words of an answer, without what is refused in it."""
    if isinstance(answer, tuple | list):
        return set[str]().union(*map(news_in, answer))
    fields = getattr(answer, "__dataclass_fields__", None)
    if fields is None:
        return set(WORDS.findall(answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)))
    values = {name: getattr(answer, name) for name in fields}
    inner = [one for one in (values.get("partitions") or ()) if getattr(one, "error_code", None) is not None]
    refused = [getattr(one, "error_code", None) for one in (answer, *inner)]
    if any(code is not None and code.name.endswith("authorization_failed") for code in refused):
        return set()
    return set[str]().union(*map(news_in, values.values()))


async def shown(browser: Browser, place: str) -> tuple[int, set[str]]:
    """The status of a page, and the words that it tells: not those in its address."""
    async with browser.session.get(f"/{place}", allow_redirects=False) as answer:
        if answer.status == 200 and place.startswith("tail"):
            return 200, set()  # it goes on for ever
        text = await answer.text()
        return answer.status, set(WORDS.findall(text)) - set(WORDS.findall(place))


def places_of(page: str) -> list[str]:
    if page not in PLACES:
        return [page]
    parameter, resource_type = PLACES[page]
    return [f"{page}?{parameter}={name}&isolation=uncommitted&offset=0&from_offset=0" for name in NAMES[resource_type]]


def grants(right: PageRight, names: Iterable[str] | None = None) -> list[Acl]:
    """What lets a user pass, for all that there is or for these names."""
    (operation, *_), _ = asked_for(right.api, right.resource_type.name)
    return [(AclOperation[operation], right.resource_type, name) for name in (names or NAMES[right.resource_type])]


def all_rights() -> list[PageRight]:
    lines = (*ASKED_BY_PAGES.values(), *ASKED_BY_ACTIONS.values())
    return [right for line in lines for right in (*line.needed, *line.shown)]
