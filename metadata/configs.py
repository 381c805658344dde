"""Configurations of topics, brokers, groups and client metrics (Kafka's `ConfigurationsImage`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metadata.maps import Map

Record = Any
"""A ConfigRecord."""

CLUSTER_DEFAULT = ""
"""The BROKER resource that stands for all brokers."""

NOTHING_SET: Map[str, str] = Map()


class ResourceType(enum.IntEnum):
    """Kafka's `ConfigResource.Type`, numbered as on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


Resource = tuple[int, str]
"""A resource's type and name."""


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    """The configurations of each resource; those with nothing set are not in it."""

    by_resource: Map[Resource, Map[str, str]] = Map()

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        return self.by_resource.get((resource_type, name), NOTHING_SET)

    def names(self, resource_type: int) -> list[str]:
        """The resources of a type that have configurations, by name."""
        return sorted(name for kind, name in self.by_resource if kind == resource_type)


class ConfigsDelta:
    """Changes of records to configurations; `changed` has each resource's new ones, empty if nothing is left."""

    def __init__(self, image: ConfigsImage) -> None:
        self._image = image
        self.changed: dict[Resource, dict[str, str]] = {}

    def put(self, record: Record) -> None:
        configs = self._of((record.resource_type, record.resource_name))
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def remove(self, resource: Resource) -> None:
        """Remove all that is set for a resource, as for a deleted topic."""
        if resource in self.changed or resource in self._image.by_resource:
            self.changed[resource] = {}

    def _of(self, resource: Resource) -> dict[str, str]:
        found = self.changed.get(resource)
        if found is None:
            found = self.changed[resource] = dict(self._image.of(*resource))
        return found

    def apply(self) -> ConfigsImage:
        by_resource = self._image.by_resource.mutate()
        for resource, configs in self.changed.items():
            if configs:
                by_resource[resource] = Map(configs)
            else:
                by_resource.pop(resource, None)
        return ConfigsImage(by_resource.finish())
