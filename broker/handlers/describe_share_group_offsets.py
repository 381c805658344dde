"""DescribeShareGroupOffsets 0 (KIP-932): every group is refused, as Kafka does while `share.version` is 0."""

from __future__ import annotations

from typing import NoReturn

from kio.schema.describe_share_group_offsets.v0 import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kio.schema.describe_share_group_offsets.v0.response import DescribeShareGroupOffsetsResponseGroup

from broker.network.context import RequestContext
from protocol.durations import ZERO
from protocol.errors import KafkaError, UnsupportedVersion


def handle(_ctx: RequestContext, _request: DescribeShareGroupOffsetsRequest) -> NoReturn:
    raise UnsupportedVersion


def error_response(
    _ctx: RequestContext, request: DescribeShareGroupOffsetsRequest, error: KafkaError
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        throttle_time=ZERO,
        groups=tuple(
            DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, topics=(), error_code=error.code, error_message=error.explicit_message
            )
            for group in request.groups
        ),
    )
