"""DescribeUserScramCredentials 0 (KIP-554; Kafka's `ScramImage`). No credential can be set, so nobody has one."""

from __future__ import annotations

from collections import Counter

from kio.schema.describe_user_scram_credentials.v0 import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kio.schema.describe_user_scram_credentials.v0.response import DescribeUserScramCredentialsResult
from kio.schema.errors import ErrorCode

from broker.context import RequestContext
from broker.error_responses import ZERO
from protocol.errors import DuplicateResource, KafkaError, ResourceNotFound


def handle(_ctx: RequestContext, request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    asked = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message="",
        results=tuple(_result(user, _refusal(user, times)) for user, times in asked.items()),
    )


def _refusal(user: str, times: int) -> KafkaError:
    if times > 1:
        return DuplicateResource(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    return ResourceNotFound(f"Attempt to describe a user credential that does not exist: {user}")


def _result(user: str, error: KafkaError) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=user, error_code=error.code, error_message=error.message, credential_infos=()
    )
