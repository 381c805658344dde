"""Dynamic configurations of resources other than topics, in the metadata store at `/configs/<type>/<name>`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import suppress

from broker.config.broker_config import BrokerConfig
from broker.metadata.store import MetadataStore, VersionConflictError
from broker.metadata.stored_entries import StoredEntries

PREFIX = "/configs/"
CLUSTER_DEFAULT = ""
"""The BROKER resource that stands for all brokers; `<default>` in the store. A group may have that name too."""

_STORED_DEFAULT = "<default>"


class ResourceType(enum.IntEnum):
    """Kafka's `ConfigResource.Type`, numbered as on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_FOLDERS = {
    ResourceType.BROKER: "brokers",
    ResourceType.CLIENT_METRICS: "client-metrics",
    ResourceType.GROUP: "groups",
}
_TYPES = {folder: resource_type for resource_type, folder in _FOLDERS.items()}

Resource = tuple[ResourceType, str]


class ResourceConfigs:
    """The configurations by resource. Reads are from memory, and see a change once the call that makes it returns."""

    def __init__(self, store: MetadataStore) -> None:
        self._configs: StoredEntries[Resource] = StoredEntries(store, PREFIX, _path, _resource)

    @classmethod
    async def open(cls, store: MetadataStore, config: BrokerConfig) -> ResourceConfigs:
        """Read the stored configurations; `config` is the static one, from which a new cluster's are initialized.

        With eligible leader replicas enabled (KIP-966), as in any new 4.1 cluster, `min.insync.replicas` is set for the
        whole cluster at the first start, and keeps the value that it had then.
        """
        configs = cls(store)
        await configs._configs.open()
        cluster = (ResourceType.BROKER, CLUSTER_DEFAULT)
        if "min.insync.replicas" not in configs.get(*cluster):
            value = str(config.integer("min.insync.replicas"))
            with suppress(VersionConflictError):  # another node of the cluster has done it
                await configs.set({cluster: {**configs.get(*cluster), "min.insync.replicas": value}})
        return configs

    def get(self, resource_type: ResourceType, name: str) -> Mapping[str, str]:
        return self._configs.get((resource_type, name))

    def names(self, resource_type: ResourceType) -> list[str]:
        """The resources of that type that have configurations, in the order in which they came to have them."""
        return [name for kind, name in self._configs if kind is resource_type]

    def broker_config(self, config: BrokerConfig) -> BrokerConfig:
        """`config` with what is set for its node and for the cluster."""
        return config.with_dynamic(
            self.get(ResourceType.BROKER, str(config.node_id)), self.get(ResourceType.BROKER, CLUSTER_DEFAULT)
        )

    def subscribe(self, listener: Callable[[Resource], None]) -> None:
        """Call `listener` with each changed resource, after the change."""
        self._configs.subscribe(listener)

    async def set(self, configs: Mapping[Resource, Mapping[str, str]]) -> None:
        """Replace the configurations of all the resources or of none; an empty mapping removes a resource's.

        Raises VersionConflictError and MetadataStoreError as `MetadataStore.commit` does.
        """
        await self._configs.set(configs)


def _path(resource: Resource) -> str:
    resource_type, name = resource
    is_default = resource == (ResourceType.BROKER, CLUSTER_DEFAULT)
    return f"{_FOLDERS[resource_type]}/{_STORED_DEFAULT if is_default else name}"


def _resource(path: str) -> Resource:
    folder, _, name = path.partition("/")
    resource_type = _TYPES[folder]
    is_default = resource_type is ResourceType.BROKER and name == _STORED_DEFAULT
    return resource_type, CLUSTER_DEFAULT if is_default else name
