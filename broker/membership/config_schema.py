"""The controller's questions about configurations, answered from their definitions (Kafka's `KafkaConfigSchema`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker.config.broker_config import BrokerConfig
from broker.config.client_metrics_configs import CLIENT_METRICS_CONFIGS, parse_client_metrics_configs
from broker.config.definition import ConfigDef, ConfigType, to_text
from broker.config.defs import KNOWN_CONFIGS, TOPIC_CONFIGS
from broker.config.describe import describe_new_topic
from broker.config.resource_configs import (
    GROUP_CONFIGS,
    check_schema_validation,
    parse_group_configs,
    parse_topic_configs,
    topic_value,
)
from metadata.configs import ResourceType
from metadata.maps import Map

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.response import CreatableTopicConfigs

MOST_DESCRIBED = 16

_NAMES: Mapping[int, Mapping[str, ConfigDef]] = {
    ResourceType.TOPIC: TOPIC_CONFIGS,
    ResourceType.GROUP: GROUP_CONFIGS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
}


class NodeConfigSchema:
    """Answers by the configuration of this node, which is the controller's too; `config` returns the present one."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        self._config = config
        self._describe = _Descriptions(None)

    @property
    def partition_count(self) -> int:
        return self._config().integer("num.partitions")

    @property
    def replication_factor(self) -> int:
        return self._config().integer("default.replication.factor")

    def check(
        self, resource_type: int, name: str, configs: Mapping[str, str | None], before: Mapping[str, str] = {}
    ) -> None:
        """See `ConfigSchema.check`; a broker's configurations were checked by that broker."""
        given = {key: value for key, value in configs.items() if value is not None}
        match resource_type:
            case ResourceType.TOPIC:
                check_schema_validation(self._config(), configs.keys() - before.keys())
                was_tiered = bool(topic_value(before, "remote.storage.enable"))
                parse_topic_configs(self._config(), configs, was_tiered=was_tiered)
            case ResourceType.GROUP:
                parse_group_configs(self._config(), given)
            case ResourceType.CLIENT_METRICS:
                parse_client_metrics_configs(given)

    def known(self, resource_type: int, configs: Mapping[str, str]) -> dict[str, str]:
        """See `ConfigSchema.known`; a broker may have any, for its plugins."""
        names = _NAMES.get(resource_type)
        return {name: text for name, text in configs.items() if names is None or name in names}

    def is_list(self, resource_type: int, name: str) -> bool:
        definition = _definitions(resource_type).get(name)
        return definition is not None and definition.type is ConfigType.LIST

    def default(self, resource_type: int, name: str) -> str:
        return to_text(_definitions(resource_type)[name].default) or ""

    def topic_value(self, configs: Mapping[str, str], name: str) -> str:
        found = topic_value(configs, name) if name in configs else self._config().topic_default(name)
        return to_text(found) or ""

    def effective_topic_configs(self, configs: Mapping[str, str]) -> tuple[CreatableTopicConfigs, ...]:
        config = self._config()
        if self._describe.config is not config:
            self._describe = _Descriptions(config)
        return self._describe[Map(configs)]


def _definitions(resource_type: int) -> Mapping[str, ConfigDef]:
    match resource_type:
        case ResourceType.TOPIC:
            return TOPIC_CONFIGS
        case ResourceType.BROKER:
            return KNOWN_CONFIGS
    return {}


class _Descriptions(dict[Map[str, str], "tuple[CreatableTopicConfigs, ...]"]):
    """Descriptions under one broker configuration, kept: most often the topics of a request have the same settings."""

    def __init__(self, config: BrokerConfig | None) -> None:
        self.config = config

    def __missing__(self, configs: Map[str, str]) -> tuple[CreatableTopicConfigs, ...]:
        assert self.config is not None
        if len(self) >= MOST_DESCRIBED:
            self.clear()
        made = self[configs] = _effective(self.config, configs)
        return made


def _effective(config: BrokerConfig, configs: Map[str, str]) -> tuple[CreatableTopicConfigs, ...]:
    from kio.schema.create_topics.v7.response import CreatableTopicConfigs

    return tuple(
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=int(entry.source),
            is_sensitive=entry.sensitive,
        )
        for entry in sorted(describe_new_topic(config, configs), key=lambda entry: entry.name)
    )
