"""AlterClientQuotas 0-1 (KIP-546; Kafka's `ClientQuotaControlManager.alterClientQuotas`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kio.schema.alter_client_quotas.v1 import AlterClientQuotasRequest, AlterClientQuotasResponse
from kio.schema.alter_client_quotas.v1.request import EntityData as AskedEntity
from kio.schema.alter_client_quotas.v1.response import EntityData, EntryData
from kio.schema.errors import ErrorCode

from broker.network.context import RequestContext
from broker.quotas.client_quotas import Alteration, WireEntity
from protocol.durations import ZERO
from protocol.errors import KafkaError
from protocol.java_collections import in_bucket_order, in_java_order, java_map_hash


async def handle(ctx: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    alterations = [
        Alteration(_entity(entry.entity), [(op.key, None if op.remove else op.value) for op in entry.ops])
        for entry in request.entries
    ]
    outcome = await ctx.node.client_quotas.alter(alterations, validate_only=request.validate_only)
    return _response({entity: outcome[entity] for entity in in_bucket_order(outcome, _hash)})


def _entity(asked: Sequence[AskedEntity]) -> WireEntity:
    """The entity; if a type has two entries, the last one counts."""
    named = {one.entity_type: one.entity_name for one in asked}
    return tuple((entity_type, named[entity_type]) for entity_type in in_java_order(named, capacity=len(asked)))


def _hash(entity: WireEntity) -> int:
    return 31 + java_map_hash(dict(entity))


def _response(outcome: Mapping[WireEntity, KafkaError | None]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        throttle_time=ZERO, entries=tuple(_entry(entity, error) for entity, error in outcome.items())
    )


def _entry(entity: WireEntity, error: KafkaError | None) -> EntryData:
    return EntryData(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=tuple(EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity),
    )


def error_response(
    _ctx: RequestContext, request: AlterClientQuotasRequest, error: KafkaError
) -> AlterClientQuotasResponse:
    entries = tuple(
        _entry(tuple((one.entity_type, one.entity_name) for one in entry.entity), error) for entry in request.entries
    )
    return AlterClientQuotasResponse(throttle_time=ZERO, entries=entries)
