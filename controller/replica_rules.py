"""Rules of elections about brokers and topics, answered from an image (Kafka's `ClusterControlManager`, KIP-966)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from controller.decision import ConfigSchema
from metadata.brokers import BrokerRegistration
from metadata.configs import ResourceType
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration, TopicImage
from protocol.metadata.topics import ConfigRecord

ELR_FEATURE = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"

MIGRATING: UUID | None = None
"""The directory of a replica of which nobody ever said where it lies; the zero id on the wire (KIP-858)."""
UNASSIGNED = UUID(int=1)
"""The directory of a replica whose broker will choose one of its several."""
LOST = UUID(int=2)
"""The directory of a replica whose folder is offline, and no longer known by its id."""
RESERVED = (MIGRATING, UNASSIGNED, LOST)


class ReplicaRules:
    """The rules on who may lead, and how many replicas are enough.

    `going` are brokers that the image shows active and that will not be after this decision, `coming` the reverse.
    """

    def __init__(
        self, image: MetadataImage, schema: ConfigSchema, *, going: Iterable[int] = (), coming: Iterable[int] = ()
    ) -> None:
        self.image = image
        self.elr_enabled = elr_enabled(image)
        self._schema = schema
        self._going = frozenset(going)
        self._coming = frozenset(coming)
        self._defaults: dict[str, str] = {}

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker is registered, not fenced, and not shutting down."""
        if broker_id in self._going:
            return False
        broker = self.image.cluster.brokers.get(broker_id)
        return broker_id in self._coming or (broker is not None and broker.is_active)

    def may_lead(
        self, partition: PartitionRegistration, broker_id: int, assigned: Mapping[int, UUID | None] | None = None
    ) -> bool:
        """Whether the broker is active, and its replica lies, or will lie, in a directory that is online."""
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None or not self.is_active(broker_id):
            return False
        known = {**dict(zip(partition.replicas, partition.directories, strict=False)), **(assigned or {})}
        return is_online(broker, known.get(broker_id, MIGRATING))

    def default_directory(self, broker_id: int) -> UUID | None:
        """The directory of a new replica on the broker: its only one, or for the broker to choose."""
        broker = self.image.cluster.brokers.get(broker_id)
        return UNASSIGNED if broker is None else default_directory(broker)

    def min_isr(self, topic: TopicImage) -> int:
        """The topic's `min.insync.replicas`, and at most the number of its replicas."""
        return min(int(self._config(topic.name, MIN_ISR)), topic.replication_factor)

    def may_elect_uncleanly(self, topic_name: str) -> bool:
        """The topic's `unclean.leader.election.enable`."""
        return self._config(topic_name, UNCLEAN_ELECTION) == "true"

    def _config(self, topic_name: str, name: str) -> str:
        configs = self.image.configs.of(ResourceType.TOPIC, topic_name)
        if configs:
            return self._schema.topic_value(configs, name)
        known = self._defaults.get(name)
        if known is None:
            known = self._defaults[name] = self._schema.topic_value(configs, name)
        return known


def elr_enabled(image: MetadataImage) -> bool:
    """Whether the cluster has eligible leader replicas (KIP-966)."""
    return image.features.get(ELR_FEATURE, 0) > 0


def min_isr_record(broker: str, value: str | None) -> ConfigRecord:
    """That sets, or takes away, `min.insync.replicas` of a broker, or of the cluster."""
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=broker, name=MIN_ISR, value=value)


def is_online(broker: BrokerRegistration, directory: UUID | None) -> bool:
    """Whether a replica in that directory of the broker can be used (Kafka's `DirectoryId.isOnline`)."""
    if directory in (MIGRATING, UNASSIGNED):
        return True
    return directory != LOST and (not broker.directories or directory in broker.directories)


def default_directory(broker: BrokerRegistration) -> UUID | None:
    """The directory of a new replica on the broker: its only one, or for the broker to choose."""
    if not broker.directories:
        return MIGRATING
    return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED
