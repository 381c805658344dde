"""The topics as the group coordinator sees them (`coordinator.group.consumer.topics_port`)."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from broker.membership.metadata_cache import MetadataCache
from coordinator.group.consumer.topics_port import TopicImage as GroupTopic
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.topics import TopicImage


class GroupTopics:
    """A view of the image. Versions are the offsets of the images in which topics changed."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._views: dict[UUID, tuple[TopicImage, GroupTopic]] = {}
        """The view of each topic; replaced when the topic changes."""
        self.version = self.newest = cache.image.offset

    def by_name(self, name: str) -> GroupTopic | None:
        topic = self._cache.topic(name)
        return None if topic is None else self._view(topic)

    def by_id(self, topic_id: UUID) -> GroupTopic | None:
        topic = self._cache.topic_by_id(topic_id)
        return None if topic is None else self._view(topic)

    def names(self) -> Iterable[str]:
        return [topic.name for topic in self._cache.image.topics]

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Note that topics have changed."""
        self.version = image.offset
        for topic_id in delta.topics.deleted:
            self._views.pop(topic_id, None)
        if any(changed.before is None for changed in delta.topics.changed.values()):
            self.newest = image.offset

    def _view(self, topic: TopicImage) -> GroupTopic:
        made_of, view = self._views.get(topic.id, (None, None))
        if view is None or made_of is not topic:
            view = GroupTopic(
                topic.name, topic.id, [self._racks(partition.replicas) for _, partition in topic.in_order()]
            )
            self._views[topic.id] = topic, view
        return view

    def _racks(self, replicas: Iterable[int]) -> list[str]:
        brokers = map(self._cache.broker, replicas)
        return sorted(broker.rack for broker in brokers if broker is not None and broker.rack)
