"""One member of a consumer group as a process.

    python group_member.py CLIENT STRATEGY BOOTSTRAP GROUP TOPIC [INSTANCE]

CLIENT is aiokafka, confluent-kafka or kafka-python; the STRATEGY "consumer" is KIP-848's protocol, where the broker
assigns. It reads the topic, and commits what it has told of; a commit that fails, as it does while the group
rebalances, is tried again, since who keeps its partitions reads nothing anew. Every line of its output is JSON:
{"owned": [partition, ...], "member": id} when its assignment changed, {"read": {partition: [offset, ...]}} before these
are committed, {"left": true} at its end, which SIGTERM brings about.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

SESSION_MS = 5_000
STATIC_SESSION_MS = 45_000
"""Long enough for a static member's process to be started again on a busy machine."""
HEARTBEAT_MS = 500
REBALANCE_MS = 15_000
POLL_SECONDS = 0.2
CONSUMER_PROTOCOL = "consumer"
ASSIGNORS = {"range": "RangePartitionAssignor", "roundrobin": "RoundRobinPartitionAssignor"}

Read = list[tuple[Any, Any]]
"""Partitions and offsets."""


def session_ms(instance: str | None) -> int:
    return SESSION_MS if instance is None else STATIC_SESSION_MS


class Stop:
    """Set by SIGTERM."""

    def __init__(self) -> None:
        self.wanted = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.wanted = True


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def work(
    stop: Stop, poll: Callable[[], Awaitable[Read]], commit: Callable[[], Awaitable[None]], refused: type[Exception]
) -> None:
    """Read and commit until it is to stop; `refused` is what a failed commit raises."""
    uncommitted = False
    while not stop.wanted:
        records = await poll()
        if records:
            offsets: dict[int, list[int]] = {}
            for partition, offset in records:
                offsets.setdefault(partition, []).append(offset)
            tell(read=offsets)
            uncommitted = True
        if uncommitted:
            try:
                await commit()
                uncommitted = False
            except refused as error:
                tell(not_committed=str(error))


def python_client(package: str, strategy: str, bootstrap: str, group: str, instance: str | None) -> dict[str, Any]:
    """The settings that aiokafka and kafka-python have in common."""
    assignors = importlib.import_module(f"{package}.coordinator.assignors.{strategy}")
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_instance_id": instance,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "partition_assignment_strategy": (getattr(assignors, ASSIGNORS[strategy]),),
        "session_timeout_ms": session_ms(instance),
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "max_poll_interval_ms": max(REBALANCE_MS, session_ms(instance)),
        "metadata_max_age_ms": 5_000,
    }


def listener(base: Any, member_id: Callable[[], str]) -> Any:
    """The listener that tells of assignments; `base` is the client's own class of listeners."""

    class Listener(base):  # type: ignore[misc]  # neither client has types
        def on_partitions_revoked(self, revoked: Any) -> None:
            tell(owned=[], member=member_id())

        def on_partitions_assigned(self, assigned: Any) -> None:
            tell(owned=sorted(p.partition for p in assigned), member=member_id())

    return Listener()


async def run_aiokafka(stop: Stop, strategy: str, bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(**python_client("aiokafka", strategy, bootstrap, group, instance))
    rebalances = listener(ConsumerRebalanceListener, lambda: consumer._coordinator.member_id)
    consumer.subscribe([topic], listener=rebalances)
    await consumer.start()

    async def poll() -> Read:
        batches = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        return [(record.partition, record.offset) for batch in batches.values() for record in batch]

    await work(stop, poll, consumer.commit, KafkaError)
    await consumer.stop()


async def run_confluent(
    stop: Stop, strategy: str, bootstrap: str, group: str, topic: str, instance: str | None
) -> None:
    from confluent_kafka import Consumer, KafkaException

    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": max(REBALANCE_MS, session_ms(instance)),
        "topic.metadata.refresh.interval.ms": 5_000,
    }
    if strategy == CONSUMER_PROTOCOL:
        config["group.protocol"] = strategy
    else:
        config |= {
            "partition.assignment.strategy": strategy,
            "session.timeout.ms": session_ms(instance),
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
    consumer = Consumer(config if instance is None else config | {"group.instance.id": instance})
    owned: set[int] = set()

    def assigned(_: Any, partitions: Any) -> None:
        owned.update(p.partition for p in partitions)
        tell(owned=sorted(owned), member=consumer.memberid())

    def revoked(_: Any, partitions: Any) -> None:
        owned.difference_update(p.partition for p in partitions)
        tell(owned=sorted(owned), member=consumer.memberid())

    async def poll() -> Read:
        messages = consumer.consume(500, POLL_SECONDS)
        return [(message.partition(), message.offset()) for message in messages if message.error() is None]

    async def commit() -> None:
        if owned:  # who has no partitions any more has nothing to commit, and would be refused
            consumer.commit(asynchronous=False)

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    await work(stop, poll, commit, KafkaException)
    consumer.close()


async def run_kafka_python(
    stop: Stop, strategy: str, bootstrap: str, group: str, topic: str, instance: str | None
) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(**python_client("kafka", strategy, bootstrap, group, instance))
    rebalances = listener(ConsumerRebalanceListener, lambda: consumer.group_metadata().member_id)
    consumer.subscribe([topic], listener=rebalances)
    # A leader that assigns before it knows the topic joins again when it does, and kafka-python forgets that, and its
    # heartbeats, when a poll ends before the join. So it knows the topic first.
    consumer.partitions_for_topic(topic)

    async def poll() -> Read:
        batches = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
        return [(record.partition, record.offset) for batch in batches.values() for record in batch]

    async def commit() -> None:
        consumer.commit()

    await work(stop, poll, commit, KafkaError)
    consumer.close()


RUNS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "aiokafka": run_aiokafka,
    "confluent-kafka": run_confluent,
    "kafka-python": run_kafka_python,
}

if __name__ == "__main__":
    asyncio.run(RUNS[sys.argv[1]](Stop(), *sys.argv[2:6], sys.argv[6] if len(sys.argv) > 6 else None))
    tell(left=True)
