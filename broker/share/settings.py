"""The settings of share groups: a group's own, over the broker's (Kafka's `GroupConfigManager`).

And what `share.auto.offset.reset` means for a partition: where the group begins to read it (KIP-932, KIP-1106).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.config.broker_config import CurrentConfig
from broker.config.definition import Value, integer_of
from broker.config.resource_configs import duration_ms, effective_group_configs
from broker.membership.metadata_cache import MetadataCache
from broker.replication.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from broker.share.runs import Rules
from metadata.configs import ResourceType
from metadata.delta import MetadataDelta
from protocol.errors import OffsetNotAvailable
from storage.log import time_lookup


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """The settings of one group now.

    `offset_reset` is earliest, latest or by_duration:<ISO 8601 duration>; `dead_letters` the name of its dead letter
    queue, empty for none.
    """

    rules: Rules
    offset_reset: str
    isolation_level: int
    may_renew: bool
    dead_letters: str
    copies_records: bool


DEFAULTS = ""
"""Stands for all groups that have no configs of their own."""


class AllShareSettings:
    """The settings of every group, as every request asks for them."""

    def __init__(self, current: CurrentConfig, cache: MetadataCache) -> None:
        self._current = current
        self._cache = cache
        self._known: dict[str, ShareSettings] = {}

    def of(self, group_id: str) -> ShareSettings:
        own = self._cache.image.configs.of(ResourceType.GROUP, group_id)
        name = group_id if own else DEFAULTS  # clients make up ids as they like, and those with configs are few
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _settings(effective_group_configs(self._current.config, own))
        return known

    def follow(self, delta: MetadataDelta) -> None:
        """Configurations may have changed."""
        if delta.touched("configs"):
            self._known.clear()


def _settings(values: Mapping[str, Value]) -> ShareSettings:
    queue = str(values["errors.deadletterqueue.topic.name"])
    rules = Rules(
        max_deliveries=integer_of(values, "share.delivery.count.limit"),
        max_locks=integer_of(values, "share.partition.max.record.locks"),
        lock_ms=integer_of(values, "share.record.lock.duration.ms"),
        dead_letters=bool(queue),
    )
    return ShareSettings(
        rules=rules,
        offset_reset=str(values["share.auto.offset.reset"]),
        isolation_level=READ_COMMITTED if values["share.isolation.level"] == "read_committed" else READ_UNCOMMITTED,
        may_renew=bool(values["share.renew.acknowledge.enable"]),
        dead_letters=queue,
        copies_records=bool(values["errors.deadletterqueue.copy.record.enable"]),
    )


async def first_offset(partition: Partition, reset: str, now_ms: int) -> int:
    """The offset for `earliest`, `latest` or `by_duration:<ISO 8601 duration>`.

    Raises OffsetNotAvailable if no record is as young as the duration says, KafkaError and OSError.
    """
    kind, _, duration = reset.partition(":")
    if kind == "earliest":
        return partition.log_start_offset
    if kind == "by_duration":
        first = await time_lookup.first_at_or_after(partition.log, now_ms - duration_ms(duration))
        if first is None or first.offset >= partition.high_watermark:
            raise OffsetNotAvailable
        return max(first.offset, partition.log_start_offset)
    return partition.high_watermark
