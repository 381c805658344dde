"""Users: their SCRAM passwords, and quotas of users, clients and addresses.

DescribeUserScramCredentials 0 (KIP-554; Kafka's `ScramImage`).

AlterUserScramCredentials 0 (KIP-554), decided by `controller.scram`.

DescribeClientQuotas 0-1 (KIP-546; Kafka's `ClientQuotasImage`).

AlterClientQuotas 0-1 (KIP-546), decided by `controller.quotas`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kio.schema.alter_client_quotas.v1 import AlterClientQuotasRequest, AlterClientQuotasResponse
from kio.schema.alter_client_quotas.v1.request import EntityData as AskedEntity
from kio.schema.alter_client_quotas.v1.response import EntityData as QuotaEntityData
from kio.schema.alter_client_quotas.v1.response import EntryData as QuotaEntryData
from kio.schema.alter_user_scram_credentials.v0 import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResult
from kio.schema.describe_client_quotas.v1 import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kio.schema.describe_client_quotas.v1.request import ComponentData
from kio.schema.describe_client_quotas.v1.response import EntityData as DescribedEntityData
from kio.schema.describe_client_quotas.v1.response import EntryData as DescribedEntryData
from kio.schema.describe_client_quotas.v1.response import ValueData
from kio.schema.describe_user_scram_credentials.v0 import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kio.schema.describe_user_scram_credentials.v0.response import CredentialInfo, DescribeUserScramCredentialsResult
from kio.schema.errors import ErrorCode

from broker.quotas.connection_rates import resolve_all
from broker.request_context import RequestContext
from controller.quotas import CLIENT_ID, IP, USER
from controller.quotas import Alteration as QuotaAlteration
from controller.quotas import decide as decide_quotas
from controller.scram import Alteration as ScramAlteration
from controller.scram import ScramDeletion, ScramUpsertion
from controller.scram import decide as decide_scram
from metadata.settings import QuotaKey
from protocol.durations import ZERO
from protocol.errors import DuplicateResource, InvalidRequest, KafkaError, ResourceNotFound, UnsupportedVersion
from protocol.schema import maker


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
        results=tuple(_described_user_result(credentials.get(user, {}), user, asked[user]) for user in asked),
    )


def _described_user_result(iterations: Mapping[int, int], user: str, times: int) -> DescribeUserScramCredentialsResult:
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


async def alter_user_scram_credentials(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    alterations: list[ScramAlteration] = [
        *(ScramDeletion(each.name, each.mechanism) for each in request.deletions),
        *(
            ScramUpsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
            for each in request.upsertions
        ),
    ]
    return await ctx.controller.submit(lambda image: decide_scram(image, alterations).map(_altered_user_response))


def _altered_user_response(outcome: Iterable[tuple[str, KafkaError | None]]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        throttle_time=ZERO, results=tuple(_altered_user_result(user, error) for user, error in outcome)
    )


def _altered_user_result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=user, error_code=ErrorCode.none, error_message=None)
    return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.explicit_message)


MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED = 0, 1, 2


IN_A_TURN = 500
"""Entities that are looked at before the loop serves others."""

_entry_data, _entity_data, _value_data = maker(DescribedEntryData), maker(DescribedEntityData), maker(ValueData)


async def describe_client_quotas(
    ctx: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    _check(request.components)
    quotas = ctx.image.quotas
    entries: list[DescribedEntryData] = []
    for number, key in enumerate(sorted(quotas, key=_order), 1):
        if _matches(key, request.components, request.strict):
            entries.append(_described_quota_entry(key, quotas[key]))
        if number % IN_A_TURN == 0:
            await ctx.turn()
    return DescribeClientQuotasResponse(
        throttle_time=ZERO, error_code=ErrorCode.none, error_message="", entries=tuple(entries)
    )


def _order(key: QuotaKey) -> list[tuple[str, str]]:
    """By types, then by names, the default first."""
    return [(entity_type, name or "") for entity_type, name in key]


def _matches(key: QuotaKey, components: Sequence[ComponentData], strict: bool) -> bool:
    parts = dict(key)
    if strict and len(parts) != len(components):
        return False
    for component in components:
        if component.entity_type not in parts:
            return False
        if component.match_type != MATCH_SPECIFIED and parts[component.entity_type] != component.match:
            return False
    return True


def _described_quota_entry(key: QuotaKey, values: Mapping[str, float]) -> DescribedEntryData:
    return _entry_data(
        entity=tuple(_entity_data(entity_type=entity_type, entity_name=name) for entity_type, name in key),
        values=tuple(_value_data(key=name, value=values[name]) for name in sorted(values)),
    )


def _check(components: Sequence[ComponentData]) -> None:
    """Raises InvalidRequest or UnsupportedVersion for the first fault of the filter."""
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in seen:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (IP, USER, CLIENT_ID):
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        _check_match(component.match_type, component.match)
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )


def _check_match(match_type: int, match: str | None) -> None:
    if match_type == MATCH_EXACT:
        if match is None:
            raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif match_type == MATCH_DEFAULT:
        if match is not None:
            raise InvalidRequest("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
    elif match_type == MATCH_SPECIFIED:
        if match is not None:
            raise InvalidRequest("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
    else:
        raise InvalidRequest(f"Unknown match type {match_type}")


async def alter_client_quotas(ctx: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    alterations = [
        QuotaAlteration(_key(entry.entity), [(op.key, None if op.remove else op.value) for op in entry.ops])
        for entry in request.entries
    ]
    alone = [each.entity[0] for each in alterations if len(each.entity) == 1]  # with other parts it is refused
    known = await resolve_all({name for entity_type, name in alone if entity_type == IP and name})
    return await ctx.controller.submit(
        lambda image: decide_quotas(image, alterations, frozenset(known), validate_only=request.validate_only).map(
            _altered_quota_response
        )
    )


def _key(asked: Sequence[AskedEntity]) -> QuotaKey:
    """The entity; if a type has two entries, the last one counts."""
    return tuple(sorted({part.entity_type: part.entity_name for part in asked}.items()))


def _altered_quota_response(outcome: Iterable[tuple[QuotaKey, KafkaError | None]]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        throttle_time=ZERO, entries=tuple(_altered_quota_entry(entity, error) for entity, error in outcome)
    )


def _altered_quota_entry(entity: QuotaKey, error: KafkaError | None) -> QuotaEntryData:
    return QuotaEntryData(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=tuple(QuotaEntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity),
    )
