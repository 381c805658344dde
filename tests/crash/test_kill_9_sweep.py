"""kill -9 of a real process at random moments under load of every kind, and what must hold after each.

The in-memory sweep (`tests/unit/storage/test_crash_points.py`, `tests/unit/broker/test_crash_points_of_a_node.py`)
stops at every single operation; this one has the operating system between. `--torture` kills a hundred times.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from odradek import Broker
from tests.crash.mixed_load import KEYS, Commits, MixedLoad, Numbered, Pairs, create_topics
from tests.crash.reading import read_committed_values

TORTURE_KILLS = 100
PATIENCE_SECONDS = 30.0
SETTINGS = {
    "log.roll.ms": 400,
    "log.index.interval.bytes": 512,
    "log.retention.check.interval.ms": 200,
    "log.cleaner.backoff.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 300,
    "log.flush.start.offset.checkpoint.interval.ms": 300,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}
FLUSHED_EACH = {"log.flush.interval.messages": 1}
UNFINISHED = (
    r"\d+ bytes from position \d+ on are no whole batch",  # the append that the kill came into
    r"is missing",  # an index of the segment that was being made
    r"the file is cut short",  # the producer snapshot that its roll was writing; the next start removes it
)
"""What `odradek log verify` may find in the newest segment of a partition of a process that was killed."""


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("own_cluster")
@pytest.mark.parametrize(
    ("settings", "kills"), [(SETTINGS, 3), (SETTINGS | FLUSHED_EACH, 2)], ids=["page-cache", "flushed-each"]
)
def test_what_was_promised_holds_after_every_kill(
    settings: dict[str, int], kills: int, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--torture"):
        kills = TORTURE_KILLS
    chance = random.Random()
    with Broker(settings, profile="dev") as broker:
        create_topics(broker.bootstrap_servers)
        with MixedLoad(broker.bootstrap_servers) as load:
            for _ in range(kills):
                time.sleep(chance.uniform(0.1, 1.2))
                promised = load.commits.promised
                broker.kill()
                assert damage_of(broker.data_dir) == []
                broker.restart()
                found = committed(broker, Commits.GROUP, TopicPartition("plain", 0))
                assert promised <= found <= load.commits.tried, "a committed offset went back"
            time.sleep(1)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not (load.pairs.committed and load.pairs.aborted) and time.monotonic() < deadline:
                time.sleep(0.1)  # on a busy machine the first transactions may be slow to come
        assert load.failures == []
        check_numbered(broker, load.plain)
        check_trimmed(broker, load.trimmed)
        check_compacted(broker, load.compacted)
        check_pairs(broker, load.pairs)
        log = broker.log()
        assert "Traceback" not in log
        assert broker.stop() == 0
        assert verify(broker.data_dir).returncode == 0
        for expected in ("cleaned log", "removing segments", "recovering logs"):
            assert expected in log


def verify(data_dir: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "odradek", "log", "verify", str(data_dir)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def damage_of(data_dir: Path) -> list[str]:
    """What `odradek log verify` finds in a folder beyond what a kill may leave."""
    newest = {max(folder.glob("*.log"), default=folder).stem for folder in data_dir.glob("*-*")}
    lines = [line for line in verify(data_dir).stdout.splitlines() if line.startswith("DAMAGE")]
    return [line for line in lines if not _is_unfinished(line, newest)]


def _is_unfinished(line: str, newest: set[str]) -> bool:
    _, path, text = line.split(": ", 2)
    return Path(path).stem in newest and any(re.fullmatch(one, text) for one in UNFINISHED)


def committed(broker: Broker, group: str, partition: TopicPartition) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        return max(consumer.committed([partition], PATIENCE_SECONDS)[0].offset, 0)
    finally:
        consumer.close()


def numbers(broker: Broker, topic: str, partition: int) -> dict[int, int]:
    """Offset to number, of what consumers with isolation level read_committed see."""
    found = read_committed_values(broker.bootstrap_servers, topic, partition)
    return {offset: int(value.split()[0]) for offset, value in found.items()}


def check_numbered(broker: Broker, sender: Numbered) -> None:
    """All of it, once, in order, without a gap, and where it was said to be."""
    for partition in range(2):
        found = numbers(broker, "plain", partition)
        assert list(found) == list(range(len(found)))
        assert list(found.values()) == list(range(partition, sender.sent, 2))
        said = {offset: number for (where, offset), number in sender.acknowledged.items() if where == partition}
        assert said == found


def check_trimmed(broker: Broker, sender: Numbered) -> None:
    """The newest part of it."""
    found = numbers(broker, "trimmed", 0)
    first = min(found)
    assert first > 0
    assert list(found) == list(range(first, first + len(found)))
    assert found == {offset: number for (_, offset), number in sender.acknowledged.items() if offset >= first}


def check_compacted(broker: Broker, sender: Numbered) -> None:
    """The last of each key at least, and nothing else than what was there."""
    found = numbers(broker, "compacted", 0)
    said = {offset: number for (_, offset), number in sender.acknowledged.items()}
    assert len(found) < len(said)
    assert found.items() <= said.items()
    last = {number % KEYS: number for number in found.values()}
    assert last == {number % KEYS: number for number in range(sender.sent)}


def check_pairs(broker: Broker, pairs: Pairs) -> None:
    """Both of a pair or none; what was committed, nothing of what was aborted; the group's offset with them."""
    last, deadline = max(pairs.committed), time.monotonic() + PATIENCE_SECONDS
    while True:
        one, other = (list(numbers(broker, "pairs", partition).values()) for partition in range(2))
        if (last in one and last in other) or time.monotonic() > deadline:
            break
        time.sleep(0.1)  # a commit is answered before its markers can be seen, as in Kafka
    assert one == other
    assert one == sorted(set(one))
    assert pairs.committed <= set(one) <= pairs.committed | pairs.unknown
    assert pairs.aborted
    assert committed(broker, Pairs.GROUP, TopicPartition("plain", 1)) == one[-1] + 1
