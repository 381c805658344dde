"""Profiles: settings for a purpose, which `odradek.profile` names; whatever is set explicitly wins over them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SETTING = "odradek.profile"

_QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
_FREQUENT_CHECKS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "2000",
    "producer.id.expiration.check.interval.ms": "2000",
    "offsets.retention.check.interval.ms": "2000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "log.segment.delete.delay.ms": "0",
}
"""What has expired goes soon after: the checks are minutes apart in Kafka."""
_SHORT_TIMEOUTS_ALLOWED = {
    "group.min.session.timeout.ms": "10",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.streams.min.session.timeout.ms": "100",
    "group.streams.min.heartbeat.interval.ms": "10",
    "group.streams.heartbeat.interval.ms": "100",
    "group.share.min.session.timeout.ms": "100",
    "group.share.min.heartbeat.interval.ms": "10",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
}
"""Sessions and locks may be shorter than Kafka allows, and consumer, share and streams groups (KIP-848, KIP-932,
KIP-1071) rebalance in tenths of a second: each step of a rebalance takes a heartbeat."""

PROFILES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "kafka": {},
        "dev": _QUICK_GROUPS,
        "test": {
            **_QUICK_GROUPS,
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            **_FREQUENT_CHECKS,
            **_SHORT_TIMEOUTS_ALLOWED,
            "odradek.fetch.max.wait.ms": "20",
            "odradek.fsync": "false",
        },
    }
)

PURPOSES: Mapping[str, str] = MappingProxyType(
    {
        "kafka": "Kafka's defaults.",
        "dev": "A broker on a developer's machine: new groups start at once. `make run` and the container have it.",
        "test": "Test suites: no waits, and no syncing of files that nobody keeps; on the command line, a name that "
        "nobody knows is refused. `odradek.Broker` and the pytest plugin have it.",
    }
)
