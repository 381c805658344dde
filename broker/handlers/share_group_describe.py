"""ShareGroupDescribe 1 (KIP-932): every group is refused, as Kafka does while `share.version` is 0."""

from __future__ import annotations

from typing import NoReturn

from kio.schema.share_group_describe.v1 import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kio.schema.share_group_describe.v1.response import DescribedGroup

from broker.network.context import RequestContext
from broker.security.authorized_operations import UNKNOWN
from protocol.durations import ZERO
from protocol.errors import KafkaError, UnsupportedVersion


def handle(_ctx: RequestContext, _request: ShareGroupDescribeRequest) -> NoReturn:
    raise UnsupportedVersion


def error_response(
    _ctx: RequestContext, request: ShareGroupDescribeRequest, error: KafkaError
) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        throttle_time=ZERO,
        groups=tuple(
            DescribedGroup(
                error_code=error.code,
                error_message=error.explicit_message,
                group_id=group_id,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=(),
                authorized_operations=UNKNOWN,
            )
            for group_id in request.group_ids
        ),
    )
