"""Members of several clients join one group, leave it and are killed, at random, while records come in.

Short by default; `make churn` runs it with twenty members for a minute.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.brokers import sound_broker
from tests.client import groups
from tests.client.group_history import history
from tests.client.groups import SETTINGS, Crew, Member
from tests.messages import place_of

PARTITIONS = 12
RECORDS_A_SECOND = 300
MIXTURES = {
    "range": ("aiokafka", "confluent-range", "kafka-python", "java"),
    "cooperative-sticky": ("confluent-cooperative", "java-cooperative"),
    "consumer protocol": ("confluent-new", "java-new"),
    "both protocols": ("confluent-range", "java", "confluent-new", "java-new"),
}
SHORT = ("cooperative-sticky", "both protocols")
"""What `make test` plays; the others are in `make churn`."""


class Producing:
    """A thread that produces to all partitions in turn; `ends` are the offsets after the last acknowledged records."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.ends: Counter[int] = Counter()
        self.failures: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.05):
            for _ in range(RECORDS_A_SECOND // 20):
                self._producer.produce(
                    self._topic, str(number).encode(), partition=number % PARTITIONS, on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            partition, offset = place_of(message)
            self.ends[partition] = offset + 1
        else:
            self.failures.append(str(error))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(groups.SECONDS)
        assert self._producer.flush(groups.SECONDS) == 0
        assert not self.failures

    @property
    def everything(self) -> set[tuple[int, int]]:
        return {(partition, offset) for partition, end in self.ends.items() for offset in range(end)}


def churn(crew: Crew, kinds: Sequence[str], most: int, seconds: float, rng: random.Random) -> list[Member]:
    """Those who are left at the end."""
    here = [crew.start(rng.choice(kinds)) for _ in range(most)]
    crew.wait_shared(here, PARTITIONS)
    leaving: list[Member] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(rng.uniform(0, 20 / most))
        if len(here) < most and rng.random() < 0.6:
            here.append(crew.start(rng.choice(kinds)))
        elif len(here) > most // 2:
            member = here.pop(rng.randrange(len(here)))
            if rng.random() < 0.5:
                member.kill()
            else:
                member.leave()
                leaving.append(member)
    for member in leaving:
        member.wait_left()
    return here


@pytest.mark.usefixtures("own_cluster")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "strategy",
    [pytest.param(name, marks=() if name in SHORT else pytest.mark.torture) for name in MIXTURES],
)
def test_nothing_is_lost_nor_owned_twice(strategy: str, topic: str, request: pytest.FixtureRequest) -> None:
    most, seconds = (int(number) for number in request.config.getoption("--churn").split(":"))
    kinds = [kind for kind in MIXTURES[strategy] if groups.missing(kind) is None]
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    with sound_broker(SETTINGS) as broker, Crew(broker.bootstrap_servers, f"group-{topic}", topic) as crew:
        bootstrap = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(groups.SECONDS)
        producing = Producing(bootstrap, topic)
        here = churn(crew, kinds, most, seconds, random.Random(seed))
        producing.stop()
        crew.wait_for("all read", lambda: crew.read >= producing.everything)
        crew.wait_for("all committed", lambda: committed(admin, crew.group) == producing.ends)
        for member in here:
            member.leave()
        for member in here:
            member.wait_left()
        assert crew.read == producing.everything
        told = history(bootstrap, crew.group)
        told.check(crew.members)
        assert told.committed() == producing.ends
        assert len(told.assignments) + len(told.epochs) > 1


def committed(admin: AdminClient, group: str) -> dict[int, int]:
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {place.partition: place.offset for place in asked[group].result(groups.SECONDS).topic_partitions}
