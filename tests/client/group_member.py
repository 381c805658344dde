"""One member of a consumer group as a process.

    python group_member.py CLIENT STRATEGY BOOTSTRAP GROUP TOPIC [INSTANCE]

CLIENT is aiokafka, confluent-kafka or kafka-python. It reads the topic, and commits what it has told of; a commit that
fails, as it does while the group rebalances, is tried again, since who keeps its partitions reads nothing anew. Every
line of its output is JSON: {"owned": [partition, ...], "member": id} when its assignment changed, {"read": {partition:
[offset, ...]}} before these are committed, {"left": true} at its end, which SIGTERM brings about.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from typing import Any

SESSION_MS = 5_000
STATIC_SESSION_MS = 15_000
"""Long enough for a static member's process to be started again."""
HEARTBEAT_MS = 500
REBALANCE_MS = 15_000
POLL_SECONDS = 0.2


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


def tell_read(records: Iterable[tuple[int, int]]) -> None:
    offsets: dict[int, list[int]] = {}
    for partition, offset in records:
        offsets.setdefault(partition, []).append(offset)
    tell(read=offsets)


def run_aiokafka(strategy: str, bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError

    stop = Stop()
    assignor = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[strategy]

    async def main() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=instance,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=(assignor,),
            session_timeout_ms=session_ms(instance),
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=REBALANCE_MS,
            metadata_max_age_ms=5_000,
        )

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
            def on_partitions_revoked(self, revoked: Any) -> None:
                tell(owned=[], member=consumer._coordinator.member_id)

            def on_partitions_assigned(self, assigned: Any) -> None:
                tell(owned=sorted(p.partition for p in assigned), member=consumer._coordinator.member_id)

        consumer.subscribe([topic], listener=Listener())
        await consumer.start()
        uncommitted = False
        while not stop.wanted:
            batches = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
            if batches:
                tell_read((record.partition, record.offset) for batch in batches.values() for record in batch)
            if batches or uncommitted:
                try:
                    await consumer.commit()
                    uncommitted = False
                except KafkaError as error:
                    tell(not_committed=str(error))
                    uncommitted = True
        await consumer.stop()

    asyncio.run(main())


def run_confluent(strategy: str, bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    from confluent_kafka import Consumer, KafkaException

    stop = Stop()
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": session_ms(instance),
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "max.poll.interval.ms": REBALANCE_MS,
        "topic.metadata.refresh.interval.ms": 5_000,
    }
    consumer = Consumer(config if instance is None else config | {"group.instance.id": instance})
    owned: set[int] = set()

    def assigned(_: Any, partitions: Any) -> None:
        owned.update(p.partition for p in partitions)
        tell(owned=sorted(owned), member=consumer.memberid())

    def revoked(_: Any, partitions: Any) -> None:
        owned.difference_update(p.partition for p in partitions)
        tell(owned=sorted(owned), member=consumer.memberid())

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    uncommitted = False
    while not stop.wanted:
        messages = [m for m in consumer.consume(500, POLL_SECONDS) if m.error() is None]
        if messages:
            tell_read((message.partition(), message.offset()) for message in messages)
        if owned and (messages or uncommitted):
            try:
                consumer.commit(asynchronous=False)
                uncommitted = False
            except KafkaException as error:
                tell(not_committed=str(error))
                uncommitted = True
    consumer.close()


def run_kafka_python(strategy: str, bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError

    stop = Stop()
    assignor = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[strategy]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=(assignor,),
        session_timeout_ms=session_ms(instance),
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=REBALANCE_MS,
        metadata_max_age_ms=5_000,
    )

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
        def on_partitions_revoked(self, revoked: Any) -> None:
            tell(owned=[], member=consumer.group_metadata().member_id)

        def on_partitions_assigned(self, assigned: Any) -> None:
            tell(owned=sorted(p.partition for p in assigned), member=consumer.group_metadata().member_id)

    consumer.subscribe([topic], listener=Listener())
    # A leader that assigns before it knows the topic joins again when it does, and kafka-python forgets that, and its
    # heartbeats, when a poll ends before the join. So it knows the topic first.
    consumer.partitions_for_topic(topic)
    uncommitted = False
    while not stop.wanted:
        batches = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
        if batches:
            tell_read((record.partition, record.offset) for batch in batches.values() for record in batch)
        if batches or uncommitted:
            try:
                consumer.commit()
                uncommitted = False
            except KafkaError as error:
                tell(not_committed=str(error))
                uncommitted = True
    consumer.close()


RUNS = {"aiokafka": run_aiokafka, "confluent-kafka": run_confluent, "kafka-python": run_kafka_python}

if __name__ == "__main__":
    RUNS[sys.argv[1]](*sys.argv[2:6], sys.argv[6] if len(sys.argv) > 6 else None)
    tell(left=True)
