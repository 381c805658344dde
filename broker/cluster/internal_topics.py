"""The topics in which coordinators keep their state: created on first use, with configurations of their own.

Kafka's `DefaultAutoTopicCreationManager`, `GroupCoordinatorService.groupMetadataTopicConfigs`,
`TransactionStateManager.transactionTopicConfigs` and `ShareCoordinatorService.shareGroupStateTopicConfigs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig

from broker.config.broker_config import BrokerConfig
from metadata.topic_names import (
    GROUP_METADATA_TOPIC_NAME,
    SHARE_GROUP_STATE_TOPIC_NAME,
    TRANSACTION_STATE_TOPIC_NAME,
)

BY_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class _Kind:
    """Where an internal topic is configured, what else it has, and what sets its `min.insync.replicas`."""

    prefix: str
    configs: Mapping[str, str]
    min_isr: str | None = None


_KINDS = {
    GROUP_METADATA_TOPIC_NAME: _Kind("offsets.topic", {"cleanup.policy": "compact", "compression.type": "producer"}),
    TRANSACTION_STATE_TOPIC_NAME: _Kind(
        "transaction.state.log",
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
        "transaction.state.log.min.isr",
    ),
    SHARE_GROUP_STATE_TOPIC_NAME: _Kind(
        "share.coordinator.state.topic",
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
        "share.coordinator.state.topic.min.isr",
    ),
}


def creatable(config: BrokerConfig, name: str) -> CreatableTopic:
    """The topic as it is asked for when it is first needed; the broker's defaults for a topic that is not internal."""
    kind = _KINDS.get(name)
    if kind is None:
        return wanted(name)
    configs = dict(kind.configs)
    if kind.min_isr is not None:
        configs["min.insync.replicas"] = str(config.integer(kind.min_isr))
    configs["segment.bytes"] = str(config.integer(f"{kind.prefix}.segment.bytes"))
    return wanted(
        name,
        config.integer(f"{kind.prefix}.num.partitions"),
        config.integer(f"{kind.prefix}.replication.factor"),
        configs,
    )


def wanted(
    name: str, partition_count: int = BY_DEFAULT, replication_factor: int = BY_DEFAULT, configs: Mapping[str, str] = {}
) -> CreatableTopic:
    """A topic of a CreateTopics request."""
    return CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replication_factor,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
