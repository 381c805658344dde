"""CreateDelegationToken 1-3 (KIP-48, KIP-373): refused over PLAINTEXT, and no listener speaks anything else."""

from __future__ import annotations

from kio.schema.create_delegation_token.v3 import CreateDelegationTokenRequest, CreateDelegationTokenResponse

from broker.network.context import RequestContext
from protocol.durations import ZERO
from protocol.errors import KafkaError, UnknownServerError, UnsupportedByAuthentication

NO_TIME = -1


def handle(ctx: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    owner = _requester(ctx)
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            raise UnknownServerError  # Kafka fails to build such a principal
        owner = request.owner_principal_type, request.owner_principal_name
    return _refused(ctx, UnsupportedByAuthentication(), owner)


def _requester(ctx: RequestContext) -> tuple[str, str]:
    """The client's principal: type and name."""
    kind, _, name = ctx.connection.principal.partition(":")
    return kind, name


def _refused(ctx: RequestContext, error: KafkaError, owner: tuple[str, str]) -> CreateDelegationTokenResponse:
    requester = _requester(ctx)
    return CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        token_id="",
        hmac=b"",
        throttle_time=ZERO,
    )


def error_response(
    ctx: RequestContext, _request: CreateDelegationTokenRequest, error: KafkaError
) -> CreateDelegationTokenResponse:
    return _refused(ctx, error, _requester(ctx))
