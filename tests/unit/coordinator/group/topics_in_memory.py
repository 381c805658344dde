"""Topics for the group coordinator, without a broker."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from coordinator.group.modern.topics import TopicImage


class TopicsInMemory:
    """Answers to `topics_port.TopicsPort`. Topic ids count up from 1, in the order in which topics are made."""

    def __init__(self) -> None:
        self.version = 0
        self.newest = 0
        self._made = 0
        self._by_name: dict[str, TopicImage] = {}

    def create(self, name: str, partitions: int) -> UUID:
        self._made += 1
        self.newest = self.version + 1
        return self._put(TopicImage(name, UUID(int=self._made), [()] * partitions))

    def grow(self, name: str, partitions: int) -> None:
        self._put(self._by_name[name]._replace(racks=[()] * partitions))

    def delete(self, name: str) -> None:
        self.version += 1
        del self._by_name[name]

    def by_name(self, name: str) -> TopicImage | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> TopicImage | None:
        return next((image for image in self._by_name.values() if image.id == topic_id), None)

    def names(self) -> Iterable[str]:
        return self._by_name

    def _put(self, image: TopicImage) -> UUID:
        self.version += 1
        self._by_name[image.name] = image
        return image.id
