"""Ten thousand topics: while they are made, scraped and shown, and the heap that they make, searched for garbage."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
import urllib.request
from collections.abc import Iterable
from functools import partial
from multiprocessing.synchronize import Event

from benchmarks.by_hand import frame, text
from benchmarks.first_record import ask
from benchmarks.groups import coordinated
from benchmarks.stalls.row import Place, Row, Subject, create

TOPICS = 10_000
OFFSET_COMMIT = 8
PAGES = ("", "topics", "topics?q=topic-09999", "topics?page=1000000", "cluster", "groups", "topic?name=topic-00001")


def names() -> list[str]:
    return [f"topic-{number:05}" for number in range(TOPICS)]


def made(place: Place, begun: Event, _ended: Event) -> None:
    begun.set()
    create(place, names())


def prepare(subject: Subject) -> None:
    create(subject.place(), names())


def _get(paths: Iterable[str], place: Place, begun: Event, ended: Event) -> None:
    begun.set()
    while not ended.is_set():
        for path in paths:
            with urllib.request.urlopen(f"http://127.0.0.1:{place.http_port}/{path}", timeout=60) as answer:
                answer.read()


def commits(place: Place, begun: Event, ended: Event) -> None:
    """Let ever more groups commit an offset: what they leave behind in the heap makes Python look for garbage."""
    asyncio.run(coordinated(place.ports[0], "group-0"))
    number = 0
    with socket.create_connection(("127.0.0.1", place.ports[0])) as connection:
        while not ended.is_set():
            group = text(f"group-{number}") + struct.pack(">i", -1) + text("") + struct.pack(">qi", -1, 1)
            offset = text("topic-00001") + struct.pack(">iiq", 1, 0, number) + text("metadata")
            if ask(connection, frame(OFFSET_COMMIT, 2, group, offset)).endswith(b"\0\0"):
                number += 1
                begun.set()
            else:
                time.sleep(0.05)  # the coordinator is not there yet


ROWS = (
    Row("topics", made, ends=True),
    Row("scrape", partial(_get, ["metrics"]), prepare, is_ours=True),
    Row("pages", partial(_get, PAGES), prepare, is_ours=True),
    Row("garbage", commits, prepare),
)
