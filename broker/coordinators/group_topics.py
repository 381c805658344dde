"""The topics as the group coordinator sees them (`coordinator.group.consumer.topics_port`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from broker.metadata.topics import Topic, Topics
from coordinator.group.consumer.topics_port import TopicImage


class GroupTopics:
    """A view of `topics`. Versions are the revisions of the metadata store at which topics changed.

    `racks` has the rack of each broker that has one.
    """

    def __init__(self, topics: Topics, racks: Mapping[int, str | None]) -> None:
        self._topics = topics
        self._racks = racks
        self._images: dict[UUID, tuple[Topic, TopicImage]] = {}
        """The view of each topic; replaced when the topic changes."""
        self.newest = self._topics.revision
        self._topics.subscribe(self._changed)

    @property
    def version(self) -> int:
        return self._topics.revision

    def by_name(self, name: str) -> TopicImage | None:
        topic = self._topics.get(name)
        return None if topic is None else self._image(topic)

    def by_id(self, topic_id: UUID) -> TopicImage | None:
        topic = self._topics.by_id(topic_id)
        return None if topic is None else self._image(topic)

    def names(self) -> Iterable[str]:
        return [topic.name for topic in self._topics.all()]

    def _image(self, topic: Topic) -> TopicImage:
        made_of, image = self._images.get(topic.id, (None, None))
        if image is None or made_of is not topic:
            image = self._new_image(topic)
            self._images[topic.id] = topic, image
        return image

    def _new_image(self, topic: Topic) -> TopicImage:
        racks = [
            sorted(rack for replica in partition.replicas if (rack := self._racks.get(replica)))
            for partition in topic.partitions
        ]
        return TopicImage(topic.name, topic.id, racks)

    def _changed(self, old: Topic | None, new: Topic | None) -> None:
        if old is not None:
            self._images.pop(old.id, None)
        if new is not None and (old is None or old.id != new.id):
            self.newest = self._topics.revision
