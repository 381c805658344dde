"""AlterUserScramCredentials 0 (KIP-554), decided by `controller.scram`."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.alter_user_scram_credentials.v0 import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResult
from kio.schema.errors import ErrorCode

from broker.request_context import RequestContext
from controller.scram import Alteration as ScramAlteration
from controller.scram import Deletion, Upsertion
from controller.scram import decide as decide_scram
from protocol.durations import ZERO
from protocol.errors import KafkaError


async def alter_user_scram_credentials(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    alterations: list[ScramAlteration] = [
        *(Deletion(each.name, each.mechanism) for each in request.deletions),
        *(
            Upsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
            for each in request.upsertions
        ),
    ]
    return await ctx.controller.submit(lambda image: decide_scram(image, alterations).map(_response))


def _response(outcome: Iterable[tuple[str, KafkaError | None]]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        throttle_time=ZERO, results=tuple(_result(user, error) for user, error in outcome)
    )


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=user, error_code=ErrorCode.none, error_message=None)
    return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.explicit_message)
