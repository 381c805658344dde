"""Share groups whose members are killed and frozen past their locks, while the broker is killed with kill -9.

Each record is delivered until somebody accepts it or it is given up; none is accepted from two; the counts of
deliveries do not go back, nor does the start offset. `share_ledger` says what Kafka allows of the rest.
`--torture` goes on for ten minutes.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek import Broker
from tests.cluster.worker import Worker
from tests.conformance.runner import Talk, Topic
from tests.conformance.share_members import ShareGroup
from tests.conformance.wire import Wire
from tests.crash.share_ledger import Ledger
from tests.waiting import wait_until

SHORT_SECONDS, LONG_SECONDS = 3.0, 600.0
LOCK_MS = 1000
LIMIT = 10
MEMBERS = 4
PARTITIONS = 2
RECORDS = 10
QUEUE = "dlq.shares"
SETTINGS = {
    "group.share.assignment.interval.ms": 0,
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.min.record.lock.duration.ms": LOCK_MS,
    "group.share.delivery.count.limit": LIMIT,
}
ROOT = Path(__file__).parents[2]
DESCRIBE = "describe_share_group_offsets"


class Members:
    """The processes; each writes its notes into a file."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        """`arguments` are those of a member from host to lock duration, `{}` its name."""
        self.frozen: dict[str, float] = {}
        self._arguments = arguments
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._started = 0

    def start(self) -> None:
        name = f"member-{self._started}"
        self._started += 1
        arguments = [name if one == "{}" else one for one in self._arguments]
        command = [sys.executable, "-m", "tests.crash.share_member", *arguments]
        with (self._folder / name).open("wb") as notes, (self._folder / "errors").open("ab") as errors:
            self._processes[name] = subprocess.Popen(command, stdout=notes, stderr=errors, cwd=ROOT)

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        self.frozen.pop(name, None)
        assert process.poll() is None, self.errors()
        process.kill()
        process.wait()

    def freeze(self, name: str, seconds: float) -> None:
        self._processes[name].send_signal(signal.SIGSTOP)
        self.frozen[name] = time.monotonic() + seconds

    def thaw(self, before: float) -> None:
        """Let those go on whose time is over before this moment."""
        for name in [name for name, until in self.frozen.items() if until <= before]:
            del self.frozen[name]
            self._processes[name].send_signal(signal.SIGCONT)

    def names(self) -> list[str]:
        return list(self._processes)

    def all_began(self) -> bool:
        return all((self._folder / name).stat().st_size for name in self._processes)

    def errors(self) -> str:
        return (self._folder / "errors").read_text()

    def read_into(self, ledger: Ledger) -> None:
        for path in self._folder.glob("member-*"):
            whole = path.read_text().rpartition("\n")[0]  # one who was killed may leave half a line
            ledger.read(path.name, map(json.loads, whole.splitlines()))


class StartOffsets(Worker):
    """Looks at the start offsets again and again, also while the broker comes and goes."""

    def __init__(self, host: str, port: int, group: str, topic: str) -> None:
        super().__init__()
        self.seen: dict[int, list[int]] = defaultdict(list)
        self._address = host, port
        wanted = [{"topic_name": topic, "partitions": list(range(PARTITIONS))}]
        self._body = {"groups": [{"group_id": group, "topics": wanted}]}

    def work(self) -> None:
        while not self.told_to_stop.wait(0.05):
            for index, start_offset, _ in self.described():
                self.seen[index].append(start_offset)

    def described(self) -> list[tuple[int, int, int]]:
        """(partition, start offset, lag) as it is now; nothing while the broker is away."""
        try:
            wire = Wire(*self._address)
        except OSError:
            return []
        answer = wire.call(DESCRIBE, 1, self._body)
        wire.close()
        if not isinstance(answer, dict):
            return []
        parts = [part for topic in answer["groups"][0]["topics"] for part in topic["partitions"]]
        return [
            (part["partition_index"], part["start_offset"], part["lag"])
            for part in parts
            if part["error_code"] == "0 NONE"
        ]

    def all_done(self) -> bool:
        return [lag for *_, lag in self.described()] == [0] * PARTITIONS


@pytest.mark.usefixtures("own_cluster")
@pytest.mark.timeout(1200)
def test_a_share_group_keeps_its_promises(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    seconds = LONG_SECONDS if request.config.getoption("--torture") else SHORT_SECONDS
    ledger = Ledger(LOCK_MS / 1000)
    with Broker(SETTINGS, profile="dev") as broker:
        host, port = broker.bootstrap_servers.split(":")
        talk = Talk(host, int(port))
        topic, group = talk.topic("work", PARTITIONS), ShareGroup(talk)
        letters = broker.topic(QUEUE, 1, {"errors.deadletterqueue.group.enable": "true"})
        group.configure(share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=QUEUE)
        talk.until("the group has a coordinator", lambda: coordinator_of(talk, group.group_id) == "0 NONE", 30)
        group.ready(topic)
        arguments = [host, port, group.group_id, "{}", topic.id, str(PARTITIONS), str(LOCK_MS)]
        offsets = StartOffsets(host, int(port), group.group_id, topic.name)
        with members_of(Members(arguments, tmp_path)) as members, offsets:
            wait_until(members.all_began, "members do not start")
            torture(broker, topic, members, ledger, seconds)
            ends = broker.topic(topic.name).end_offsets()
            wait_until(offsets.all_done, "not all records come to an end")
            assert members.errors() == ""
        members.read_into(ledger)
        given_up = {
            (int(letter.headers["__dlq.errors.partition"]), int(letter.headers["__dlq.errors.offset"]))
            for letter in letters.records()
        }
        assert "Traceback" not in broker.log()
    for partition, seen in offsets.seen.items():
        assert seen == sorted(seen), f"the start offset of partition {partition} went back"
    ledger.check(ends, given_up)
    assert ledger.accepted(), "nobody accepted anything"


def coordinator_of(talk: Talk, group_id: str) -> str:
    """The error code of the answer; asking makes the topic that the coordinator needs."""
    answer = talk.main.call("find_coordinator", 1, {"key": group_id, "key_type": 0})
    return str(answer["error_code"])


@contextmanager
def members_of(members: Members) -> Iterator[Members]:
    """Members that are there for the block."""
    try:
        for _ in range(MEMBERS):
            members.start()
        yield members
    finally:
        for name in members.names():
            members.kill(name)


def torture(broker: Broker, topic: Topic, members: Members, ledger: Ledger, seconds: float) -> None:
    """Each of the events once and then by chance; records come all the time."""
    chance = random.Random()
    events = iter(["freeze", "broker", "kill"])
    until = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:
        for partition in range(PARTITIONS):
            values = [b"%d" % (number + at) for at in range(chance.randrange(RECORDS, 3 * RECORDS))]
            broker.topic(topic.name).produce_many(values, partition=partition)
            number += len(values)
        members.thaw(time.monotonic())
        match next(events, "") or chance.choice(["freeze", "freeze", "broker", "kill", "rest"]):
            case "freeze":
                members.freeze(chance.choice(members.names()), chance.uniform(0.5, 2.5) * LOCK_MS / 1000)
            case "kill":
                members.kill(chance.choice(members.names()))
                members.start()
            case "broker":
                ledger.kills.append(time.monotonic())
                broker.kill()
                broker.restart()
        time.sleep(chance.uniform(0.1, 0.8))
    members.thaw(float("inf"))
