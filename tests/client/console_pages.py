"""The console's pages, and a browser (Debian's Chromium) that looks at those of a broker with all that can be shown."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, Page, expect, sync_playwright

from odradek import Broker
from tests.brokers import sound_broker

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium (tests/client/install-tools.sh)")

HOSTILE = """"'><script>alert(1)</script><img src=x onerror=alert(2)>"""
WIDTHS = {"phone": 360, "larger phone": 390, "tablet": 820, "laptop": 1024, "wide": 1600}
PAGES = {
    "overview": "",
    "topics": "topics",
    "topic": "topic?name=orders",
    "messages": "messages?topic=orders&isolation=uncommitted",
    "message": "message?topic=orders&partition=0&offset=0",
    "bytes": "messages?topic=bytes",
    "dump": "message?topic=bytes&partition=0&offset=0",
    "groups": "groups",
    "group": "group?" + urlencode({"id": f"mail {HOSTILE}"}),
    "transactions": "transactions",
    "transaction": "transaction?" + urlencode({"id": f"till {HOSTILE}"}),
    "clients": "clients",
    "cluster": "cluster",
    "new topic": "new-topic",
    "configuration of a topic": "topic-configs?name=orders&key=retention.ms",
    "configuration of brokers": "broker-configs?q=retention",
    "produce": "produce?topic=orders&from_partition=0&from_offset=0",
    "movements": "movements",
    "schemas": "schemas",
    "schema": "schema?" + urlencode({"subject": f"mail {HOSTILE}-value", "version": 2, "against": 1}),
    "tier": "tier",
    "access": "access",
    "users": "users",
    "quotas": "quotas",
    "tokens": "tokens",
    "audit": "audit",
    "kit": "kit",
    "journal": "journal",
}
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One with a topic, a group that reads it, schemas, an open transaction and a fault, most of hostile names."""
    with sound_broker({"odradek.http.port": "0", "odradek.console.write": "true"}) as broker:
        orders = broker.topic("orders")
        orders.produce({"id": 7, "note": HOSTILE}, key=HOSTILE, headers={HOSTILE: HOSTILE})
        broker.topic("bytes").produce(bytes(range(256)), key="", headers={"": ""})
        field = {"name": "note", "type": ["null", "string"], "default": None, "doc": HOSTILE}
        for fields in ([], [field]):
            broker.registry.register(f"mail {HOSTILE}", {"type": "record", "name": "Mail", "fields": fields})
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        config = {**servers, "transactional.id": f"till {HOSTILE}", "client.id": f"till {HOSTILE}"}
        producer = Producer({**config, "transaction.timeout.ms": 900_000})  # open for as long as all tests take
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"held")
        producer.flush(30)
        settings = {"group.id": f"mail {HOSTILE}", "client.id": f"mail {HOSTILE}", "auto.offset.reset": "earliest"}
        consumer = Consumer({**servers, **settings})
        consumer.subscribe(["orders"])
        assert consumer.poll(60) is not None
        broker.fault(api="Heartbeat", group=HOSTILE, delay=0.1)
        yield broker
        consumer.close()
        producer.abort_transaction(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, broker: Broker) -> Iterator[Page]:
    """A page that must not run a script of a stranger, or complain."""
    context = browser.new_context(base_url=f"http://127.0.0.1:{broker.http_port}/")
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert not complaints, complaints
