"""Pages and actions of the console show and do for a user what Kafka's APIs tell and do for the same user (ACLs)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup

from broker.authorization.console_table import ASKED_BY_ACTIONS, ASKED_BY_PAGES, PageRight, PageRights
from broker.console.actions import ACTIONS
from broker.console.app import PAGES
from broker.console.ask import Rights
from broker.console.history import History
from broker.network.request import USER, Principal
from broker.testkit.control.faults import faults_of
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

CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID = (
    ResourceType.CLUSTER,
    ResourceType.GROUP,
    ResourceType.TOPIC,
    ResourceType.TRANSACTIONAL_ID,
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
}
NAMES = {
    CLUSTER: [CLUSTER_NAME],
    GROUP: ["told-mail", "told-news", "told-old"],
    TOPIC: ["told-a", "told-b"],
    TRANSACTIONAL_ID: ["told-till", "told-purse"],
}
"""What there is. Each word that begins with `told-`, or is one of these numbers, is looked for in pages and answers."""

RETENTION = {"told-a": "123450001", "told-b": "123450002"}
WORDS = re.compile(r"told-\w+|12345000\d")

PLACES = {
    "topic": ("name", TOPIC),
    "messages": ("topic", TOPIC),
    "message": ("topic", TOPIC),
    "tail": ("topic", TOPIC),
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
        rig.node.faults = faults_of(rig.node)
        rig.node.faults.set({"api": "Heartbeat", "group": "told-fault", "delay": 2})
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig, History(rig.node)) as browser:
            await log_in(browser, "anna", "a=,secret")
            yield rig, browser


def client_of_anna(rig: Rig) -> Client:
    client = rig.connect()
    client.connection.principal = Principal(USER, "anna")
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
    asked: list[tuple[str, int, dict[str, Any]]] = [
        (
            "metadata",
            12,
            {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
        ),
        ("describe_configs", 4, {"resources": configs, "include_synonyms": True, "include_documentation": False}),
        ("list_groups", 5, {"states_filter": (), "types_filter": ()}),
        ("consumer_group_describe", 1, {"group_ids": tuple(groups), **options}),
        ("offset_fetch", 9, {"groups": offsets, "require_stable": False}),
        ("list_transactions", 0, {"state_filters": (), "producer_id_filters": ()}),
        ("describe_log_dirs", 4, {"topics": None}),
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
    return [f"{page}?{parameter}={name}&isolation=uncommitted&offset=0" for name in NAMES[resource_type]]


def grants(right: PageRight, names: Iterable[str] | None = None) -> list[Acl]:
    """What lets a user pass, for all that there is or for these names."""
    (operation, *_), _ = asked_for(right.api, right.resource_type.name)
    return [(AclOperation[operation], right.resource_type, name) for name in (names or NAMES[right.resource_type])]


def all_rights() -> list[PageRight]:
    lines = (*ASKED_BY_PAGES.values(), *ASKED_BY_ACTIONS.values())
    return [right for line in lines for right in (*line.needed, *line.shown)]


def test_every_page_and_action_says_what_it_asks_of_the_authorizer() -> None:
    assert ASKED_BY_PAGES.keys() == PAGES.keys() | {"tail"}
    assert ASKED_BY_ACTIONS.keys() == ACTIONS.keys()
    assert all(asked_for(right.api, right.resource_type.name) for right in all_rights())


def test_a_page_cannot_ask_about_what_its_line_does_not_have() -> None:
    rights = Rights().of(PageRights((PageRight("fetch", TOPIC, named="topic"),)))
    assert rights.allow("fetch", TOPIC, "t")
    with pytest.raises(AssertionError, match="no describe_configs on TOPIC"):
        rights.allow("describe_configs", TOPIC, "t")


async def test_pages_show_no_more_than_the_apis_tell_the_same_user() -> None:
    ones = {acl for right in all_rights() for acl in grants(right)}
    several = [
        {(AclOperation.DESCRIBE, TOPIC, "told-a"), *((AclOperation.DESCRIBE, GROUP, name) for name in NAMES[GROUP])},
        {(AclOperation.READ, TOPIC, "told-b"), (AclOperation.DESCRIBE, TRANSACTIONAL_ID, "told-till")},
        {(AclOperation.DESCRIBE, GROUP, "told-mail"), *((AclOperation.DESCRIBE, TOPIC, name) for name in NAMES[TOPIC])},
        {acl for acl in ones if acl[1] is not CLUSTER},
        {acl for acl in ones if acl[0] is AclOperation.DESCRIBE},
    ]
    async with filled() as (rig, browser):
        for acls in ([], *([one] for one in sorted(ones)), *several):
            set_acls(rig, acls)
            told = await told_by_apis(rig)
            for page, asked in ASKED_BY_PAGES.items():
                needed = {acl for right in asked.needed if right.named is None for acl in grants(right)}
                if any(right.api == "create_acls" for right in asked.needed) and needed <= set(acls):
                    continue  # who could have everything is shown what no API tells
                for place in places_of(page):
                    _, words = await shown(browser, place)
                    assert words <= told, (page, place, acls)


async def test_pages_are_refused_without_their_rights_and_shown_with_them() -> None:
    async with filled() as (rig, browser):
        for page, asked in ASKED_BY_PAGES.items():
            place = places_of(page)[0]
            set_acls(rig, ())
            assert (await shown(browser, place)) == (403 if asked.needed else 200, set()), place
            set_acls(rig, [acl for right in asked.needed for acl in grants(right)[:1]])
            assert (await shown(browser, place))[0] == 200, place


SHOWN = {
    "": {"told-folder"},
    "topics": {"told-a", "told-b"},
    "topic?name=told-a": {"123450001", "told-mail", "told-till"},
    "messages?topic=told-a": {"told-record_of_a"},
    "message?topic=told-a&offset=0": {"told-record_of_a"},
    "groups": {"told-mail", "told-news", "told-old"},
    "group?id=told-mail": {"told-a", "told-b", "told-mailer"},
    "group?id=told-news": {"told-a", "told-b", "told-reader"},
    "transactions": {"told-till", "told-purse", "told-a", "told-b"},
    "transaction?id=told-till": {"told-a", "told-b"},
    "clients": {"told-mailer"},
    "cluster": set[str](),
    "kit": {"told-fault"},
    "journal": {"told-mailer", "told-mail", "told-a"},
}


async def test_pages_show_everything_with_all_rights() -> None:
    assert {place.partition("?")[0] for place in SHOWN} == PAGES.keys()
    async with filled() as (rig, browser):
        set_acls(rig, {acl for right in all_rights() for acl in grants(right)})
        for place, words in SHOWN.items():
            assert words <= (await shown(browser, place))[1], place


async def test_a_page_shows_some_of_it_with_some_rights() -> None:
    describe = AclOperation.DESCRIBE
    async with filled() as (rig, browser):
        set_acls(rig, [(describe, TOPIC, "told-a"), *((describe, GROUP, name) for name in NAMES[GROUP])])
        assert await shown(browser, "group?id=told-mail") == (200, {"told-a", "told-mailer"})
        hidden = await browser.get("/group?id=told-news")
        assert "all topics of the group are told who is in it" in hidden.text
        assert "told-a" in hidden.text
        assert await shown(browser, "topic?name=told-a") == (200, set()), "configurations need DESCRIBE_CONFIGS"
        assert "DESCRIBE_CONFIGS" in (await browser.get("/topic?name=told-a")).text
        overview = await browser.get("/")
        assert "Only users who may describe the cluster" in overview.text
        assert "broker.example" not in overview.text
        set_acls(rig, [(describe, TOPIC, "told-a"), (describe, TRANSACTIONAL_ID, "told-till")])
        page = await browser.get("/transactions")
        assert "told-till" in page.text
        assert "No transaction is open in a partition" in page.text, "that needs READ, as in DescribeProducers"
        assert page.text.count("told-a") == 0


async def test_a_list_of_groups_shows_to_who_may_describe_the_cluster_what_list_groups_tells() -> None:
    async with filled() as (rig, browser):
        set_acls(rig, [(AclOperation.DESCRIBE, CLUSTER, CLUSTER_NAME)])
        page = await browser.get("/groups")
        assert "told-mail Stable classic – –" in page.text
        set_acls(rig, [(AclOperation.DESCRIBE, GROUP, "told-old")])
        page = await browser.get("/groups")
        assert "Stable" not in page.text, "neither the state of a group that may not be seen"


async def test_the_lag_over_time_is_that_of_the_topics_that_the_user_may_know() -> None:
    async with filled() as (rig, _):
        for topic, count in (("told-a", 3), ("told-b", 100)):
            append(rig, topic, *[(b"k", b"v")] * count)
        set_acls(rig, {acl for right in all_rights() for acl in grants(right)})
        history = History(rig.node)
        history.lags("told-old")
        async with browsing(rig, history) as other:
            await history.sample_lags()
            await log_in(other, "anna", "a=,secret")
            everything = await other.get("/group?id=told-old")
            set_acls(rig, [(AclOperation.DESCRIBE, GROUP, "told-old"), (AclOperation.DESCRIBE, TOPIC, "told-a")])
            some = await other.get("/group?id=told-old")
        total = re.search(r"Lag, all partitions ([\d,]+)", everything.text)
        of_a = re.search(r"Lag, all partitions ([\d,]+)", some.text)
        assert total is not None
        assert of_a is not None
        assert int(total[1]) - int(of_a[1]) >= 100
