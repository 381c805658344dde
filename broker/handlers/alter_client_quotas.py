"""AlterClientQuotas 0-1 (KIP-546), decided by `controller.quotas`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kio.schema.alter_client_quotas.v1 import AlterClientQuotasRequest, AlterClientQuotasResponse
from kio.schema.alter_client_quotas.v1.request import EntityData as AskedEntity
from kio.schema.alter_client_quotas.v1.response import EntityData as QuotaEntityData
from kio.schema.alter_client_quotas.v1.response import EntryData as QuotaEntryData
from kio.schema.errors import ErrorCode

from broker.quotas.hosts import resolve_all
from broker.request_context import RequestContext
from controller.quotas import IP
from controller.quotas import Alteration as QuotaAlteration
from controller.quotas import decide as decide_quotas
from metadata.settings import QuotaKey
from protocol.durations import ZERO
from protocol.errors import KafkaError


async def alter_client_quotas(ctx: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    alterations = [
        QuotaAlteration(_key(entry.entity), [(op.key, None if op.remove else op.value) for op in entry.ops])
        for entry in request.entries
    ]
    alone = [each.entity[0] for each in alterations if len(each.entity) == 1]  # with other parts it is refused
    known = await resolve_all({name for entity_type, name in alone if entity_type == IP and name})
    return await ctx.controller.submit(
        lambda image: decide_quotas(image, alterations, frozenset(known), validate_only=request.validate_only).map(
            _response
        )
    )


def _key(asked: Sequence[AskedEntity]) -> QuotaKey:
    """The entity; if a type has two entries, the last one counts."""
    return tuple(sorted({part.entity_type: part.entity_name for part in asked}.items()))


def _response(outcome: Iterable[tuple[QuotaKey, KafkaError | None]]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        throttle_time=ZERO, entries=tuple(_entry(entity, error) for entity, error in outcome)
    )


def _entry(entity: QuotaKey, error: KafkaError | None) -> QuotaEntryData:
    return QuotaEntryData(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=tuple(QuotaEntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity),
    )
