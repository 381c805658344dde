"""AlterUserScramCredentials 0 (KIP-554; Kafka's `ScramControlManager.alterCredentials`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_user_scram_credentials.v0 import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResult
from kio.schema.errors import ErrorCode

from broker.network.context import RequestContext
from broker.security.scram_credentials import Deletion, Upsertion
from protocol.durations import ZERO
from protocol.java_collections import in_java_order

if TYPE_CHECKING:
    from protocol.errors import KafkaError


async def handle(ctx: RequestContext, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    deletions = [Deletion(one.name, one.mechanism) for one in request.deletions]
    upsertions = [
        Upsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password) for one in request.upsertions
    ]
    outcome = await ctx.node.scram_credentials.alter([*deletions, *upsertions])
    return _response({user: outcome[user] for user in _in_kafkas_order(deletions, upsertions, outcome)})


def _in_kafkas_order(
    deletions: list[Deletion], upsertions: list[Upsertion], outcome: dict[str, KafkaError | None]
) -> list[str]:
    """First the users who lost a credential, then those who have one, then those who were refused."""

    def accepted(alterations: list[Deletion] | list[Upsertion]) -> list[str]:
        return in_java_order([one.user for one in alterations if outcome[one.user] is None])

    refused = in_java_order([user for user, error in outcome.items() if error is not None])
    return [*accepted(deletions), *accepted(upsertions), *refused]


def _response(outcome: dict[str, KafkaError | None]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        throttle_time=ZERO, results=tuple(_result(user, error) for user, error in outcome.items())
    )


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=user, error_code=ErrorCode.none, error_message=None)
    return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.explicit_message)


def error_response(
    _ctx: RequestContext, request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    users = [one.name for one in request.deletions] + [one.name for one in request.upsertions]
    return _response(dict.fromkeys(users, error))
