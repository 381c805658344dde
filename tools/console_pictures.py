"""The pictures of the console in the docs: `python -m tools.console_pictures` (needs Debian's chromium).

A broker is filled with orders, a group that lags, and a transaction that holds it back; pages of it are pictured.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

from confluent_kafka import Consumer, Producer
from playwright.sync_api import sync_playwright

from odradek import Broker

DOCS = Path(__file__).parent.parent / "docs"
FILTER = '.value.total > 40 and .value.customer.id < 20 and .headers.channel == "app"'
PICTURES = {
    "console-overview": ("?range=5m", "light", 1200),
    "console-messages": ("messages?" + urlencode({"topic": "orders", "filter": FILTER}), "light", 1200),
    "console-topic": ("topic?name=orders&range=5m", "light", 820),
    "console-group": ("group?id=mails&range=5m", "dark", 820),
    "console-phone": ("topics?sort=-records", "light", 390),
    "console-phone-group": ("group?id=mails&range=5m", "dark", 390),
}
HEIGHTS = {1200: 760, 820: 1150, 390: 700}
FIRST_LOOK = "topic?name=orders"
"""A topic has charts from the time on when somebody looks at it."""


def address(broker: Broker, path: str) -> str:
    return f"http://127.0.0.1:{broker.http_port}/{path}"


def picture(broker: Broker) -> None:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (path, scheme, width) in PICTURES.items():
            size = {"width": width, "height": HEIGHTS[width]}
            page = chromium.new_page(viewport=size, color_scheme="dark" if scheme == "dark" else "light")  # type: ignore[arg-type]
            page.goto(address(broker, path))
            page.screenshot(path=DOCS / f"{name}.png")
        chromium.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=int, default=90, help="how long the broker is under load before")
    seconds = options.parse_args().seconds
    with Broker({"odradek.http.port": 0, "odradek.console.write": True}, profile="dev") as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        for name, partitions in (("orders", 4), ("payments", 2), ("shipments", 1)):
            broker.topic(name, partitions=partitions)
        producer = Producer({**servers, "client.id": "shop"})
        held = Producer(
            {**servers, "client.id": "till", "transactional.id": "till-3", "transaction.timeout.ms": 600_000}
        )
        held.init_transactions(30)
        consumer = Consumer({**servers, "group.id": "mails", "client.id": "mailer", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        urlopen(address(broker, FIRST_LOOK)).close()
        begun = time.monotonic()
        number = 0
        holds = False
        while (passed := time.monotonic() - begun) < seconds:
            for _ in range(int(20 + 15 * (passed % 20) / 20)):
                number += 1
                value = f'{{"id": {number}, "customer": {{"id": {number % 97}}}, "total": {number % 500 / 10}}}'
                headers: dict[str, str | bytes | None] = {"channel": "app" if number % 3 else "web"}
                producer.produce("orders", value, key=f"customer-{number % 97}", headers=headers)
                if number % 4 == 0:
                    producer.produce("payments", f'{{"order": {number}}}', key=f"customer-{number % 97}")
            producer.poll(0)
            consumer.consume(int(10 + passed % 15), timeout=0.05)
            if passed > seconds * 0.7 and not holds:
                holds = True
                held.begin_transaction()
                held.produce("orders", b'{"id": 0}', key="held")
                held.flush(10)
            time.sleep(0.05)
        producer.flush(10)
        picture(broker)
        consumer.close()


if __name__ == "__main__":
    main()
