"""The settings of share groups: a group's own, over the broker's (Kafka's `GroupConfigManager`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.config.current import CurrentConfig
from broker.config.definition import Value, integer_of
from broker.config.resource_defs import effective_group_configs
from broker.membership.metadata_cache import MetadataCache
from broker.replication.partition import READ_COMMITTED, READ_UNCOMMITTED
from broker.share.runs import Rules
from metadata.configs import ResourceType
from metadata.delta import MetadataDelta


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """What holds for one group now.

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
