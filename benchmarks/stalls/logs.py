"""What a broker does to its own logs: it loads a coordinator, compacts, and loses a folder."""

from __future__ import annotations

import asyncio
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import compaction, coordinator_load
from benchmarks.stalls.row import SECONDS, Place, Row, Subject, create

GROUP_TOPIC = "loaded"
COMMITS, UPDATES, KEYS = 1_000, 1_000_000, 10_000
FOLDERS = {"log.dirs": "{folder}/data,{folder}/other"}
PARTITIONS = 2_000


def fill_offsets(subject: Subject) -> None:
    """A million commits of a thousand offsets, not compacted."""
    place = subject.place()
    create(place, [GROUP_TOPIC], coordinator_load.OFFSETS)
    asyncio.run(coordinator_load.fill(place.ports[0], GROUP_TOPIC, COMMITS))


def loaded(place: Place, begun: Event, _ended: Event) -> None:
    begun.set()
    asyncio.run(coordinator_load.until_served(place.ports[0], GROUP_TOPIC))


def fill_updates(subject: Subject) -> None:
    place = subject.place()
    admin = place.admin()
    topic = NewTopic(compaction.TOPIC, 1, 1, config=compaction.HELD_BACK)
    admin.create_topics([topic])[compaction.TOPIC].result(30)
    compaction.fill(place.servers, UPDATES, KEYS)


def compacted(place: Place, begun: Event, _ended: Event) -> None:
    begun.set()
    compaction.set_lag(place.admin(), 0)
    until = time.monotonic() + SECONDS
    while compaction.cleaned_to(place) < UPDATES:
        if time.monotonic() > until:
            raise TimeoutError("the log was not cleaned")
        time.sleep(0.02)


def make_partitions(subject: Subject) -> None:
    create(subject.place(), [f"many-{number}" for number in range(PARTITIONS // 100)], 100)


def folder_lost(place: Place, begun: Event, _ended: Event) -> None:
    """Take a folder of `log.dirs` away, with half of all partitions, and wait until the broker has missed it."""
    begun.set()
    folder = place.folder / "other"
    lost = {path.name for path in folder.glob("many-*")}
    folder.rename(Path(f"{folder}-gone"))
    admin = place.admin()
    until = time.monotonic() + SECONDS
    while any(_leads(admin, name) for name in {each.rpartition("-")[0] for each in lost} if lost):
        if time.monotonic() > until:
            raise TimeoutError("the folder was not missed")
        time.sleep(0.1)


def _leads(admin: AdminClient, topic: str) -> bool:
    """Whether all partitions of a topic still have a leader."""
    return all(each.leader >= 0 for each in admin.list_topics(topic, timeout=30).topics[topic].partitions.values())


ROWS = (
    Row("coordinator", loaded, fill_offsets, ends=True, restarts=True),
    Row("compaction", compacted, fill_updates, settings=compaction.SETTINGS, ends=True),
    Row("folder", folder_lost, make_partitions, settings=FOLDERS, ends=True, is_ours=True),
)
