"""Changes of records to an image (Kafka's `MetadataDelta`), and how batches of the log become images.

Records between BeginTransaction and EndTransaction take effect together; an AbortTransaction drops them (KIP-868;
Kafka's `MetadataBatchLoader`). An image never shows half of them, nor half of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

from metadata.brokers import ClusterDelta
from metadata.configs import ConfigsDelta, ResourceType
from metadata.image import EMPTY, MetadataImage
from metadata.settings import MapDelta, changed_counts, changed_quotas, quota_key
from metadata.topics import TopicsDelta

SUBJECTS = ("cluster", "topics", "configs", "features", "quotas", "scram", "acls", "tokens")


class MetadataDelta:
    """Takes records, then gives the image after them.

    The part for a subject exists once it was asked for; `touched` tells whether records have done so.
    """

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.next_producer_id: int | None = None

    @cached_property
    def cluster(self) -> ClusterDelta:
        return ClusterDelta(self.image.cluster)

    @cached_property
    def topics(self) -> TopicsDelta:
        return TopicsDelta(self.image.topics)

    @cached_property
    def configs(self) -> ConfigsDelta:
        return ConfigsDelta(self.image.configs)

    @cached_property
    def features(self) -> MapDelta[str, int]:
        return MapDelta(self.image.features)

    @cached_property
    def quotas(self) -> MapDelta[Any, Any]:
        return MapDelta(self.image.quotas)

    @cached_property
    def scram(self) -> MapDelta[Any, Any]:
        return MapDelta(self.image.scram)

    @cached_property
    def acls(self) -> MapDelta[Any, Any]:
        return MapDelta(self.image.acls)

    @cached_property
    def tokens(self) -> MapDelta[Any, Any]:
        return MapDelta(self.image.tokens)

    def touched(self, subject: str) -> bool:
        """Whether a record changed this subject, one of `SUBJECTS`."""
        return subject in self.__dict__

    def replay(self, record: Any) -> None:
        """Take a record. Raises KeyError if it changes what is not there, and TypeError for an unknown record."""
        replay = _REPLAY.get(record.__class__.__name__)
        if replay is None:
            raise TypeError(f"no image takes a {record.__class__.__name__}")
        replay(self, record)

    def replay_all(self, records: Iterable[Any]) -> None:
        for record in records:
            self.replay(record)

    def apply(self, offset: int, epoch: int, timestamp_ms: int) -> MetadataImage:
        """The image after the records, the last of which is at `offset`."""
        made = {subject: getattr(self, subject).apply() for subject in SUBJECTS if self.touched(subject)}
        if self.next_producer_id is not None:
            made["next_producer_id"] = self.next_producer_id
        if self.touched("tokens"):
            made["token_counts"] = changed_counts(self.image.token_counts, self.image.tokens, self.tokens.changed)
        return replace(self.image, offset=offset, epoch=epoch, timestamp_ms=timestamp_ms, **made)


def _remove_topic(delta: MetadataDelta, record: Any) -> None:
    delta.configs.remove((ResourceType.TOPIC, delta.topics.remove(record)))


def _set_feature(delta: MetadataDelta, record: Any) -> None:
    if record.feature_level:
        delta.features.put(record.name, record.feature_level)
    else:
        delta.features.remove(record.name)


def _set_quota(delta: MetadataDelta, record: Any) -> None:
    key = quota_key(record.entity)
    delta.quotas.changed[key] = changed_quotas(delta.quotas.get(key), record)


def _set_producer_ids(delta: MetadataDelta, record: Any) -> None:
    delta.next_producer_id = record.next_producer_id


def _nothing(_delta: MetadataDelta, _record: Any) -> None:
    pass


_REPLAY: dict[str, Callable[[MetadataDelta, Any], None]] = {
    "RegisterBrokerRecord": lambda delta, record: delta.cluster.register(record),
    "UnregisterBrokerRecord": lambda delta, record: delta.cluster.unregister(record),
    "FenceBrokerRecord": lambda delta, record: delta.cluster.fence(record),
    "UnfenceBrokerRecord": lambda delta, record: delta.cluster.unfence(record),
    "BrokerRegistrationChangeRecord": lambda delta, record: delta.cluster.change(record),
    "RegisterControllerRecord": lambda delta, record: delta.cluster.register_controller(record),
    "UnregisterControllerRecord": lambda delta, record: delta.cluster.unregister_controller(record),
    "TopicRecord": lambda delta, record: delta.topics.create(record),
    "RemoveTopicRecord": _remove_topic,
    "PartitionRecord": lambda delta, record: delta.topics.put_partition(record),
    "PartitionChangeRecord": lambda delta, record: delta.topics.change_partition(record),
    "ClearElrRecord": lambda delta, record: delta.topics.clear_elr(record),
    "ConfigRecord": lambda delta, record: delta.configs.put(record),
    "FeatureLevelRecord": _set_feature,
    "ClientQuotaRecord": _set_quota,
    "ProducerIdsRecord": _set_producer_ids,
    "UserScramCredentialRecord": lambda delta, record: delta.scram.put((record.name, record.mechanism), record),
    "RemoveUserScramCredentialRecord": lambda delta, record: delta.scram.remove((record.name, record.mechanism)),
    "AccessControlEntryRecord": lambda delta, record: delta.acls.put(record.id, record),
    "RemoveAccessControlEntryRecord": lambda delta, record: delta.acls.remove(record.id),
    "DelegationTokenRecord": lambda delta, record: delta.tokens.put(record.token_id, record),
    "RemoveDelegationTokenRecord": lambda delta, record: delta.tokens.remove(record.token_id),
    "NoOpRecord": _nothing,
    "ZkMigrationStateRecord": _nothing,
}
"""By the record's class name, so that modules of records that no log holds need not be loaded."""


class ImageLoader:
    """Applies batches one after the other; `image` is the newest complete one."""

    def __init__(self, image: MetadataImage = EMPTY) -> None:
        self.image = image
        self._transaction: list[Any] | None = None
        self._delta = MetadataDelta(image)

    @property
    def in_transaction(self) -> bool:
        """Whether the records so far end within a transaction."""
        return self._transaction is not None

    def load(self, records: Iterable[Any]) -> None:
        """Take the records of a batch; `publish` makes the image of them."""
        for record in records:
            name = record.__class__.__name__
            if name == "BeginTransactionRecord":
                self._transaction = []
            elif name == "EndTransactionRecord":
                self._delta.replay_all(self._transaction or ())
                self._transaction = None
            elif name == "AbortTransactionRecord":
                self._transaction = None
            elif self._transaction is not None:
                self._transaction.append(record)
            else:
                self._delta.replay(record)

    def publish(self, offset: int, epoch: int, timestamp_ms: int) -> MetadataDelta:
        """Make the image after all batches so far, the last of which ends at `offset`; return what has changed."""
        delta = self._delta
        self.image = delta.apply(offset, epoch, timestamp_ms)
        self._delta = MetadataDelta(self.image)
        return delta
