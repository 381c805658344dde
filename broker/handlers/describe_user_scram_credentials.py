"""DescribeUserScramCredentials 0 (KIP-554; Kafka's `ScramImage`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kio.schema.describe_user_scram_credentials.v0 import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kio.schema.describe_user_scram_credentials.v0.response import CredentialInfo, DescribeUserScramCredentialsResult
from kio.schema.errors import ErrorCode

from broker.request_context import RequestContext
from protocol.durations import ZERO
from protocol.errors import DuplicateResource, KafkaError, ResourceNotFound


def describe_user_scram_credentials(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    credentials: dict[str, dict[int, int]] = {}
    for user, mechanism in sorted(ctx.image.scram):
        credentials.setdefault(user, {})[mechanism] = ctx.image.scram[user, mechanism].iterations
    asked = Counter([user.name for user in request.users or ()] or list(credentials))
    return DescribeUserScramCredentialsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message="",
        results=tuple(_result(credentials.get(user, {}), user, asked[user]) for user in asked),
    )


def _result(iterations: Mapping[int, int], user: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return _refused(
            user,
            DuplicateResource(f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"),
        )
    if not iterations:
        return _refused(user, ResourceNotFound(f"Attempt to describe a user credential that does not exist: {user}"))
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.none,
        error_message="",
        credential_infos=tuple(CredentialInfo(mechanism=one, iterations=n) for one, n in iterations.items()),
    )


def _refused(user: str, error: KafkaError) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=user, error_code=error.code, error_message=error.message, credential_infos=()
    )
