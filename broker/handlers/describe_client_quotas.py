"""DescribeClientQuotas 0-1 (KIP-546; Kafka's `ClientQuotasImage`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kio.schema.describe_client_quotas.v1 import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kio.schema.describe_client_quotas.v1.request import ComponentData
from kio.schema.describe_client_quotas.v1.response import EntityData as DescribedEntityData
from kio.schema.describe_client_quotas.v1.response import EntryData as DescribedEntryData
from kio.schema.describe_client_quotas.v1.response import ValueData
from kio.schema.errors import ErrorCode

from broker.request_context import RequestContext
from controller.quotas import CLIENT_ID, IP, USER
from metadata.settings import QuotaKey
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, UnsupportedVersion

MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED = 0, 1, 2


def describe_client_quotas(ctx: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    _check(request.components)
    quotas = ctx.image.quotas
    entries = [
        _entry(key, quotas[key])
        for key in sorted(quotas, key=_order)
        if _matches(key, request.components, request.strict)
    ]
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


def _entry(key: QuotaKey, values: Mapping[str, float]) -> DescribedEntryData:
    return DescribedEntryData(
        entity=tuple(DescribedEntityData(entity_type=entity_type, entity_name=name) for entity_type, name in key),
        values=tuple(ValueData(key=name, value=values[name]) for name in sorted(values)),
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
