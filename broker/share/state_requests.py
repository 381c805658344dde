"""What the requests to the share coordinator have in common: each asks for partitions of topics, for one group."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import InvalidRequest, KafkaError
from protocol.uuids import ZERO

T = TypeVar("T")
R = TypeVar("R")


async def ask_for_partitions(
    group_id: str | None,
    topics: Collection[Any],
    ask: Callable[[SharePartitionKey, Any], Future[T] | Awaitable[T]],
    result: Callable[[int, T | KafkaError], R],
    *,
    allows_empty: bool = False,
) -> dict[UUID, tuple[R, ...]]:
    """The result of each partition, by topic id: what was answered, or the error, at last if it is named twice.

    Nothing without a group, or if any topic is without partitions and it is not `allows_empty`, as in Kafka.
    """
    if not group_id or not (allows_empty or all(topic.partitions for topic in topics)):
        return {}
    asked = [
        (SharePartitionKey(group_id, topic.topic_id or ZERO, partition.partition), partition)
        for topic in topics
        for partition in topic.partitions
    ]
    answers = await asyncio.gather(*(_answer(ask, key, partition) for key, partition in asked))
    last = {key: answer for (key, _), answer in zip(asked, answers, strict=True)}
    found: dict[UUID, list[R]] = {}
    for key, answer in last.items():
        found.setdefault(key.topic_id, []).append(result(key.partition, answer))
    return {topic_id: tuple(results) for topic_id, results in found.items()}


def error_fields(index: int, answer: object) -> dict[str, Any]:
    """The fields that the results of all these requests share: the partition, and its error if the answer is one."""
    error = answer if isinstance(answer, KafkaError) else None
    return {
        "partition": index,
        "error_code": ErrorCode.none if error is None else error.code,
        "error_message": None if error is None else error.message,
    }


async def _answer(
    ask: Callable[[SharePartitionKey, Any], Future[T] | Awaitable[T]], key: SharePartitionKey, partition: Any
) -> T | KafkaError:
    if key.partition < 0:
        return InvalidRequest(f"The partition {key.partition} is negative.")
    try:
        return await ask(key, partition)
    except KafkaError as error:
        return error
