"""DescribeLogDirs 1-4 (KIP-113, KIP-827; Kafka's `ReplicaManager.describeLogDirs`)."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from kio.schema.describe_log_dirs.v4 import DescribeLogDirsRequest, DescribeLogDirsResponse
from kio.schema.describe_log_dirs.v4.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode

from broker.context import RequestContext
from broker.error_responses import ZERO

if TYPE_CHECKING:
    from broker.node import Node
    from broker.partition import Partition


def handle(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    node = ctx.node
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    by_dir: defaultdict[str, list[Partition]] = defaultdict(list)
    for partition in node.partitions:
        if wanted is None or partition.key in wanted:
            by_dir[log_dir_of(partition)].append(partition)
    return DescribeLogDirsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        results=tuple(_result(node, path, by_dir[path]) for path in log_dirs(node)),
    )


def log_dirs(node: Node) -> list[str]:
    """The folders of `log.dirs`, absolute, as Kafka names them."""
    return [os.path.abspath(path) for path in node.config.log_dirs]


def log_dir_of(partition: Partition) -> str:
    return os.path.abspath(partition.log.folder.rpartition("/")[0])


def _result(node: Node, path: str, partitions: list[Partition]) -> DescribeLogDirsResult:
    if path in {os.path.abspath(failed) for failed in node.logs.failed_folders}:
        return DescribeLogDirsResult(error_code=ErrorCode.kafka_storage_error, log_dir=path, topics=())
    by_topic: defaultdict[str, list[Partition]] = defaultdict(list)
    for partition in partitions:
        by_topic[partition.topic].append(partition)
    try:
        total, usable = node.logs.services.fs.space(path)
    except OSError:
        return DescribeLogDirsResult(error_code=ErrorCode.kafka_storage_error, log_dir=path, topics=())
    return DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=path,
        topics=tuple(
            DescribeLogDirsTopic(
                name=topic,
                partitions=tuple(
                    # The lag of a replica is that behind the high watermark, which no leader has.
                    DescribeLogDirsPartition(
                        partition_index=one.index, partition_size=one.log.size, offset_lag=0, is_future_key=False
                    )
                    for one in found
                ),
            )
            for topic, found in by_topic.items()
        ),
        total_bytes=total,
        usable_bytes=usable,
    )
