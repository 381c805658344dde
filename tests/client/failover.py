"""Stock clients at work while brokers are killed: transactional producers, and groups that read and commit."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Self

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator.runtime.runtime import partition_for
from odradek import Cluster, ClusterBroker, ControlError, Topic
from tests.client.groups import PARTITIONS, Crew
from tests.client.transactional import Play, expected
from tests.cluster.client import until
from tests.cluster.load import Load

SECONDS = 120
PAUSE_S = 0.02
MORE = 3
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


class Transactions:
    """A client that makes one transaction after the other in `topic`, in a thread, until it is told to stop."""

    def __init__(self, cluster: Cluster, client: str, play: Play) -> None:
        self.client = client
        self.topic = cluster.topic(f"by-{client}", partitions=1)
        self.id = f"transactions-of-{client}"
        self.given: list[str] = []
        self._play = play
        self._bootstrap = cluster.bootstrap_servers
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._play(self._bootstrap, self.topic.name, self.id, self._outcomes())
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            self._failure = error

    def _outcomes(self) -> Iterator[str]:
        for outcome in itertools.cycle(("commit", "commit", "abort")):
            if self._stop.wait(PAUSE_S):
                return
            self.given.append(outcome)
            yield outcome

    def has_given(self, count: int) -> bool:
        """Whether so many transactions have begun. Raises AssertionError if the client has given up."""
        assert self._failure is None, f"{self.client} after {len(self.given)} transactions: {self._failure!r}"
        return len(self.given) >= count

    def stop(self) -> None:
        """Begin no transaction from now on; return when the last one has ended."""
        self._stop.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), f"the last transaction of {self.client} does not end"

    def check(self) -> None:
        """All that was committed is there, once and in order, and nothing else."""
        self.stop()
        assert self.has_given(MORE)
        wanted = expected(self.given, committed=True)
        self.topic.wait(count=len(wanted), timeout=SECONDS)  # a client is answered before the last marker is written
        found = [record.value or b"" for record in self.topic.records()]
        missing, more = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
        assert found == wanted, f"{self.client}: {len(found)} records of {len(wanted)}; {missing=} {more=}"


class Work:
    """Transactional producers; and for each kind a group of two members, which read what another producer writes."""

    def __init__(self, cluster: Cluster, plays: Mapping[str, Play], kinds: Sequence[str]) -> None:
        self._cluster = cluster
        self._plays, self._kinds = plays, kinds
        self._topic: Topic
        self._load: Load
        self._transactions: list[Transactions] = []
        self._crews: list[Crew] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        cluster, bootstrap = self._cluster, self._cluster.bootstrap_servers
        self._topic = cluster.topic("read-by-groups", partitions=PARTITIONS)
        with self._stack as stack:
            self._load = stack.enter_context(Load(bootstrap, self._topic.name, PARTITIONS, "load"))
            for kind in self._kinds:
                crew = stack.enter_context(Crew(bootstrap, f"group-of-{kind}", self._topic.name))
                members = [crew.start(kind) for _ in range(2)]
                crew.wait_shared(members, PARTITIONS)
                self._crews.append(crew)
            for client, play in self._plays.items():
                self._transactions.append(Transactions(cluster, client, play))
                stack.callback(self._transactions[-1].stop)
            self.wait_for_more()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait_for_more(self) -> None:
        """Until each producer has ended some transactions from now on, and each group has read what there is now."""
        for one in self._transactions:
            count = len(one.given) + MORE
            until(partial(one.has_given, count), f"more of {one.client}", SECONDS)
        written = set(self._load.acknowledged)
        for crew in self._crews:
            crew.wait_for("read what was written", partial(_has_read, crew, written), SECONDS)

    @property
    def leaders(self) -> list[tuple[str, int]]:
        """The partitions that clients write to and read."""
        written = [(one.topic.name, 0) for one in self._transactions]
        return [*written, *((self._topic.name, index) for index in range(PARTITIONS))]

    @property
    def coordinators(self) -> list[tuple[str, int]]:
        """The partitions whose leaders are the clients' coordinators."""
        groups, ids = self._count(OFFSETS), self._count(TRANSACTIONS)
        return [
            *((OFFSETS, partition_for(crew.group, groups)) for crew in self._crews),
            *((TRANSACTIONS, partition_for(one.id, ids)) for one in self._transactions),
        ]

    def _count(self, topic: str) -> int:
        known = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers}).list_topics(topic, SECONDS)
        return len(known.topics[topic].partitions)

    def kill_leader_of(self, places: Sequence[tuple[str, int]], index: int) -> None:
        """Kill the broker that leads all these partitions; it comes back when the clients have gone on without it."""
        cluster, victim = self._cluster, self._cluster.brokers[index]
        for topic, partition in places:
            until(partial(self._moved, topic, partition, victim), f"{victim} leads {topic}-{partition}", SECONDS)
        self.wait_for_more()
        victim.kill()
        self.wait_for_more()
        victim.start()
        cluster.wait_in_sync(timeout=SECONDS)

    def _moved(self, topic: str, partition: int, broker: ClusterBroker) -> bool:
        """Whether the broker leads; while it is not in sync, as on a busy machine, it cannot."""
        try:
            self._cluster.move_leader(topic, partition, broker)
        except ControlError:
            return False
        return True

    def check(self) -> None:
        """Nothing is lost or doubled, and groups have committed all that they have read."""
        for one in self._transactions:
            one.check()
        self._load.stop()
        assert self._load.failed == []
        found = {(record.partition, record.offset): record.value for record in self._topic.records()}
        assert found == self._load.acknowledged
        assert len(set(found.values())) == len(found)
        ends = {index: 1 + max(offset for at, offset in found if at == index) for index in range(PARTITIONS)}
        for crew in self._crews:
            crew.wait_for("read everything", partial(_has_read, crew, set(found)), SECONDS)
            assert crew.read == set(found), f"{crew.group} has read what is not there"
            crew.wait_for("committed", partial(self._has_committed, crew.group, ends), SECONDS)

    def _has_committed(self, group: str, ends: Mapping[int, int]) -> bool:
        consumer = Consumer({"bootstrap.servers": self._cluster.bootstrap_servers, "group.id": group})
        try:
            asked = [TopicPartition(self._topic.name, index) for index in range(PARTITIONS)]
            return {one.partition: one.offset for one in consumer.committed(asked, SECONDS)} == ends
        finally:
            consumer.close()


def _has_read(crew: Crew, written: set[tuple[int, int]]) -> bool:
    return crew.read >= written
