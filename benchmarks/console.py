"""How long the console's pages take, and how long they keep Kafka's clients waiting: `python -m benchmarks.console`.

A broker with 10,000 topics and, in one more, a million messages is asked for each page. Meanwhile a client asks for its
API versions as fast as it is answered: its longest wait is what a page costs others.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from datetime import timedelta

import aiohttp
import uvloop
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from confluent_kafka import Producer

from benchmarks.by_hand import Asker, frame
from odradek import Broker

API_VERSIONS = 18
TOPICS_AT_ONCE = 500
TIMEOUT_MS = int(timedelta(minutes=5).total_seconds() * 1000)

PAGES = {
    "overview": "",
    "topics": "topics",
    "topics, a name": "topics?q=topic-09999",
    "topics, the last part": "topics?page=1000000",
    "cluster": "cluster",
    "transactions": "transactions",
    "messages, the newest": "messages?topic=large",
    "messages, an offset": "messages?topic=large&from=offset&offset=100000",
    "messages, a time": "messages?topic=large&from=time&time=2026-01-01",
    "messages, a key (20,000 compared)": "messages?topic=large&key=nowhere",
    "a topic": "topic?name=large",
}


async def create(broker: Broker, count: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers, request_timeout_ms=TIMEOUT_MS)
    await admin.start()
    for first in range(0, count, TOPICS_AT_ONCE):
        names = [f"topic-{number:05}" for number in range(first, min(first + TOPICS_AT_ONCE, count))]
        await admin.create_topics([NewTopic(name, 1, 1) for name in names], timeout_ms=TIMEOUT_MS)
    await admin.create_topics([NewTopic("large", 4, 1)])
    await admin.close()


def fill(broker: Broker, messages: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, "compression.type": "lz4"})
    for number in range(messages):
        value = f'{{"id": {number}, "user": {{"id": {number % 977}}}, "note": "some text of an order"}}'
        while True:
            try:
                producer.produce("large", value, key=str(number))
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(600)


async def longest_wait_ms(asker: Asker, request: bytes, until: asyncio.Future[float]) -> float:
    longest = 0.0
    while not until.done():
        began = time.perf_counter()
        await asker.ask(request)
        longest = max(longest, (time.perf_counter() - began) * 1000)
    return longest


async def measure(broker: Broker, rounds: int) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    _, asker = await asyncio.get_running_loop().create_connection(Asker, host, int(port))
    request = frame(API_VERSIONS, 0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{broker.http_port}/") as session:

        async def load(path: str) -> float:
            began = time.perf_counter()
            async with session.get(f"/{path}") as answer:
                await answer.read()
                assert answer.status == 200, path
            return (time.perf_counter() - began) * 1000

        await load("")
        for name, path in PAGES.items():
            took, waits = [], []
            for _ in range(rounds):
                loading = asyncio.ensure_future(load(path))
                waits.append(await longest_wait_ms(asker, request, loading))
                took.append(await loading)
            print(  # noqa: T201
                f"{name}: {statistics.median(took):.0f} ms; others wait {statistics.median(waits):.1f} ms at most "
                f"(worst of {rounds}: {max(waits):.1f} ms)"
            )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--topics", type=int, default=10_000)
    options.add_argument("--messages", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=7)
    given = options.parse_args()
    with Broker({"odradek.http.port": 0, "odradek.control": ""}, profile="kafka") as broker:
        uvloop.run(create(broker, given.topics))
        fill(broker, given.messages)
        uvloop.run(measure(broker, given.rounds))


if __name__ == "__main__":
    main()
