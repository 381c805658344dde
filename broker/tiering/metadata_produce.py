"""A record of `__remote_log_metadata` for a broker that leads its partition, as a producer with acks=all sends it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.produce.v12.request import PartitionProduceData, ProduceRequest, TopicProduceData

from broker.peers.leaders import ask, check
from broker.peers.queues import Reach
from metadata.topic_names import REMOTE_LOG_METADATA_TOPIC_NAME as TOPIC

ALL_REPLICAS = -1
FIRST_VERSION = 9


async def produce(reach: Reach, leader: int, index: int, batch: bytes, timeout_ms: int) -> int:
    """The offset of the record, once it is committed. Raises KafkaError."""
    data = PartitionProduceData(index=index, records=batch)
    request = ProduceRequest(
        transactional_id=None,
        acks=ALL_REPLICAS,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=(TopicProduceData(name=TOPIC, partition_data=(data,)),),
    )
    answer: Any = await ask(reach, leader, request, lowest=FIRST_VERSION)
    (result,) = answer.responses[0].partition_responses
    check(leader, result.error_code)
    return int(result.base_offset)
