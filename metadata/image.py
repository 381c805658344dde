"""The image of what a cluster agrees on (Kafka's `MetadataImage`): one value that no reader can see half changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from metadata.brokers import ClusterImage
from metadata.configs import ConfigsImage
from metadata.maps import Map
from metadata.settings import METADATA_VERSION, QuotaKey
from metadata.topics import TopicsImage

ScramKey = tuple[str, int]
"""A user's name, and the number of a SCRAM mechanism."""


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Everything, as of the record at `offset` of the metadata log; -1 before the first.

    Attributes:
        epoch: the controller's epoch in which that record was written.
        timestamp_ms: when it was written.
        features: the finalized level of each feature, `metadata.version` among them.
        next_producer_id: the first producer id that no block has.
        scram, acls, tokens: the records that made them, by user and mechanism, ACL id and token id.
        token_counts: how many delegation tokens an owner has.
    """

    offset: int = -1
    epoch: int = 0
    timestamp_ms: int = -1
    cluster: ClusterImage = ClusterImage()
    topics: TopicsImage = TopicsImage()
    configs: ConfigsImage = ConfigsImage()
    features: Map[str, int] = Map()
    quotas: Map[QuotaKey, Map[str, float]] = Map()
    next_producer_id: int = 0
    scram: Map[ScramKey, Any] = Map()
    acls: Map[UUID, Any] = Map()
    tokens: Map[str, Any] = Map()
    token_counts: Map[str, int] = Map()

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, 0)


EMPTY = MetadataImage()
