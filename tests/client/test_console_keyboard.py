"""Every action of the console by keyboard alone, from its login on: Tab, Space, Enter, and what is typed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Browser, Page, expect

from broker.console.actions import ACTIONS
from broker.console.movements import NOT_NEEDED
from odradek import Broker, Cluster
from odradek.cluster.nodes import ClusterBroker
from tests.brokers import sound_broker
from tests.client.console_pages import PATIENCE_MS, browser, needs_chromium

pytestmark = needs_chromium
__all__ = ["browser"]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "a key",
    "odradek.http.port": "0",
    "odradek.console.write": "true",
    "schema.registry.listeners": "http://127.0.0.1:0",
}
MOST_TABS = 400


class Case(NamedTuple):
    """A page, what is typed into which fields of the action's form, its button, and what is said if not the usual."""

    action: str
    path: str
    typed: dict[str, str]
    button: str = "button"
    said: str = ""


CASES = (
    Case("create-topic", "new-topic", {"topic": "made", "partitions": "2"}),
    Case("produce-record", "produce?topic=made", {"value": '{"id": 7}', "partition": "0"}, "button.main"),
    Case("add-partitions", "topic?name=made", {"partitions": "3"}),
    Case("alter-topic-config", "topic-configs?name=made&key=retention.ms", {"value": "60000"}),
    Case("alter-broker-config", "broker-configs?broker=all&key=log.retention.ms", {"value": "70000"}),
    Case("move-replicas", "movements", {"topic": "made", "brokers": "1"}),
    Case("elect-leaders", "movements", {"topic": "made"}, said=NOT_NEEDED),
    Case("reset-offsets", "group?id=readers", {"to": "earliest"}),
    Case("delete-offsets", "group?id=readers", {"topic": "made"}),
    Case("delete-group", "group?id=readers", {}),
    Case("truncate-topic", "topic?name=made", {"before": "1", "partition": "0"}),
    Case("delete-topic", "topic?name=made", {}),
    Case("abort-transaction", "transaction?id=till", {}),
    Case("add-acl", "acls", {"principal": "User:app", "operation": "WRITE", "name": "orders"}),
    Case("delete-acl", "acls", {}),
    Case("set-password", "users", {"user": "ben", "password": "secret", "again": "secret"}),
    Case("delete-password", "users", {}),
    Case("set-quota", "quotas", {"client": "app", "value": "1048576"}, "button.main"),
    Case("create-token", "tokens", {"hours": "2"}),
    Case("renew-token", "tokens", {"hours": "1"}),
    Case("expire-token", "tokens", {}),
    Case("register-schema", "schemas", {"subject": "made-value", "text": '"string"'}, "button.main"),
    Case("set-schema-level", "schema?subject=made-value", {"level": "FULL"}),
    Case("delete-schema", "schema?subject=made-value", {}, "button.danger"),
    Case("remove-fault", "kit", {}),
    Case("advance-clock", "kit", {"seconds": "5"}),
)


def tab_to(page: Page, selector: str) -> None:
    for _ in range(MOST_TABS):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"{MOST_TABS} times Tab on {page.url} did not lead to {selector}")


def do(page: Page, case: Case, key: str) -> None:
    form = f"form[action='{case.action}']"
    page.goto(case.path)
    for name, text in case.typed.items():
        tab_to(page, f"{form} [name='{name}']")
        page.keyboard.type(text)
    tab_to(page, f"{form} {case.button}")
    with page.expect_navigation():
        page.keyboard.press(key)
    expect(page.locator("p.good[role=status]")).to_have_text(case.said or ACTIONS[case.action].done)


@contextmanager
def console(browser: Browser, broker: Broker | ClusterBroker) -> Iterator[Page]:
    """A page of the broker's console, at which every question is answered with yes."""
    page = browser.new_page(base_url=f"http://127.0.0.1:{broker.http_port}/")
    page.set_default_timeout(PATIENCE_MS)
    page.on("dialog", lambda dialog: dialog.accept())
    yield page
    page.close()


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """A broker with a topic, an open transaction and a fault."""
    with sound_broker(SETTINGS, security="SASL_PLAINTEXT", users={"admin": "admin-secret"}) as broker:
        config = broker.client_config("confluent", user="admin")
        producer = Producer({**config, "transactional.id": "till", "transaction.timeout.ms": 900_000})
        broker.topic("held")
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("held", b"held")
        producer.flush(30)
        broker.fault(api="Heartbeat", group="nobody", delay=0.1)
        yield broker


@pytest.fixture(scope="module")
def logged_in(browser: Browser, guarded: Broker) -> Iterator[Page]:
    with console(browser, guarded) as page:
        page.goto("login")
        page.keyboard.type("admin")  # the field has the focus
        page.keyboard.press("Tab")
        page.keyboard.type("admin-secret")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        yield page


def test_each_action_is_done_by_keyboard_alone(logged_in: Page, guarded: Broker) -> None:
    """In turn, as each is about what those before it have made; by Enter and by Space."""
    for at, case in enumerate(CASES):
        if case.action == "reset-offsets":
            consumer = Consumer({**guarded.client_config("confluent", user="admin"), "group.id": "readers"})
            consumer.commit(offsets=[TopicPartition("made", 0, 1)], asynchronous=False)
            consumer.close()
        do(logged_in, case, ("Enter", "Space")[at % 2])
    logged_in.goto("audit")
    done = logged_in.locator("tr", has=logged_in.locator(".tag.good")).locator("td:nth-child(4)").all_inner_texts()
    assert done[::-1] == [case.action for case in CASES]


def test_a_move_to_another_broker_is_seen_and_cancelled_by_keyboard_alone(browser: Browser) -> None:
    settings = {"odradek.http.port": "0", "odradek.console.write": "true"}
    with Cluster(brokers=2, settings=settings) as cluster:
        create = Case("create-topic", "new-topic", {"topic": "orders", "replicas": "1"})
        with console(browser, cluster.brokers[0]) as page:
            do(page, create, "Enter")
        leader = cluster.wait_for_leader("orders")
        (other,) = [one for one in cluster.brokers if one != leader]
        cluster.isolate(other)  # so that the move does not come to its end
        with console(browser, leader) as page:
            do(page, Case("move-replicas", "movements", {"topic": "orders", "brokers": str(other.index)}), "Enter")
            expect(page.get_by_role("progressbar")).to_be_visible()
            do(page, Case("cancel-move", "movements", {}), "Space")
            expect(page.get_by_text("No partition moves.")).to_be_visible()


def test_no_action_is_left_out() -> None:
    assert {case.action for case in CASES} | {"cancel-move"} == set(ACTIONS)
