"""The topics in which coordinators keep their state: created on first use, with configurations of their own.

Kafka's `DefaultAutoTopicCreationManager`, `GroupCoordinatorService.groupMetadataTopicConfigs`,
`TransactionStateManager.transactionTopicConfigs` and `ShareCoordinatorService.shareGroupStateTopicConfigs`.
"""

from __future__ import annotations

import structlog

from broker.metadata.store import VersionConflictError
from broker.metadata.topic_planning import PlanningNode, plan_topic
from broker.metadata.topics import Topic
from metadata.topic_names import (
    GROUP_METADATA_TOPIC_NAME,
    SHARE_GROUP_STATE_TOPIC_NAME,
    TRANSACTION_STATE_TOPIC_NAME,
)
from protocol.errors import CoordinatorNotAvailable, KafkaError

logger = structlog.get_logger(__name__)


def plan_internal_topic(node: PlanningNode, name: str) -> Topic | None:
    """The internal topic as it would be created, None if the name is not one's. Raises what `plan_topic` does."""
    config = node.config
    if name == GROUP_METADATA_TOPIC_NAME:
        prefix = "offsets.topic"
        configs = {"cleanup.policy": "compact", "compression.type": "producer"}
    elif name == TRANSACTION_STATE_TOPIC_NAME:
        prefix = "transaction.state.log"
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
            "unclean.leader.election.enable": "false",
        }
    elif name == SHARE_GROUP_STATE_TOPIC_NAME:  # nobody here writes it, but clients can have it made
        prefix = "share.coordinator.state.topic"
        configs = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(config.integer("share.coordinator.state.topic.min.isr")),
            "retention.ms": "-1",
        }
    else:
        return None
    return plan_topic(
        node,
        name,
        partition_count=config.integer(f"{prefix}.num.partitions"),
        replication_factor=config.integer(f"{prefix}.replication.factor"),
        assignments=(),
        configs=(*configs.items(), ("segment.bytes", str(config.integer(f"{prefix}.segment.bytes")))),
    )


async def ensure_internal_topic(node: PlanningNode, name: str) -> None:
    """Create the topic if it does not exist. Raises CoordinatorNotAvailable if that fails."""
    while node.topics.get(name) is None:
        try:
            topic = plan_internal_topic(node, name)
            assert topic is not None, f"{name} is no internal topic"
            await node.topics.create([topic])
        except VersionConflictError:
            continue  # another request was faster
        except KafkaError as error:
            logger.error("internal topic not created", topic=name, error=error.message)
            raise CoordinatorNotAvailable from error
        logger.info("internal topic created", topic=name, partitions=len(topic.partitions))
