"""AlterClientQuotas (KIP-546; Kafka's `ClientQuotaControlManager`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from types import MappingProxyType
from typing import Any

from controller.decision import Decision, require_few_records
from metadata.image import MetadataImage
from metadata.settings import QuotaKey
from protocol.errors import InvalidRequest, KafkaError
from protocol.metadata.topics import ClientQuotaRecord, QuotaEntity

USER, CLIENT_ID, IP = "user", "client-id", "ip"
CONNECTION_RATE = "connection_creation_rate"


class Number(Enum):
    """The type of a quota's value, with its largest value."""

    LONG = float(2**63 - 1)
    INT = float(2**31 - 1)
    DOUBLE = float("inf")


USER_AND_CLIENT_KEYS: Mapping[str, Number] = MappingProxyType(
    {
        "producer_byte_rate": Number.LONG,
        "consumer_byte_rate": Number.LONG,
        "request_percentage": Number.DOUBLE,
        "controller_mutation_rate": Number.DOUBLE,
    }
)
IP_KEYS: Mapping[str, Number] = MappingProxyType({CONNECTION_RATE: Number.INT})


@dataclass(frozen=True, slots=True)
class Alteration:
    """The change requested for one entity: values by quota; None removes."""

    entity: QuotaKey
    ops: Sequence[tuple[str, float | None]]


def decide(
    image: MetadataImage, alterations: Sequence[Alteration], known_hosts: frozenset[str], *, validate_only: bool
) -> Decision[list[tuple[QuotaKey, KafkaError | None]]]:
    """The outcome of each entity's alteration; of two for one entity the first is made, and the other refused.

    `known_hosts` are those names of IP entities that are addresses or have one. Raises PolicyViolation for too many
    changes, also if they are only validated.
    """
    outcome: dict[QuotaKey, KafkaError | None] = {}
    records: list[Any] = []
    for each in alterations:
        try:
            if each.entity in outcome or len(dict(each.ops)) < len(each.ops):
                raise InvalidRequest("The request names this entity, or one of its quotas, twice. Name each once.")
            _check_entity(each.entity, known_hosts)
            new = _records(each, image.quotas.get(each.entity, {}))
        except KafkaError as error:
            outcome[each.entity] = error
        else:
            outcome[each.entity] = None
            records += new
            require_few_records(len(records))
    return Decision([] if validate_only else records, list(outcome.items()))


def _check_entity(entity: QuotaKey, known_hosts: frozenset[str]) -> None:
    """Raises InvalidRequest for an entity that cannot have quotas."""
    types = [entity_type for entity_type, _ in entity]
    for entity_type, name in entity:
        if entity_type not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"There is no entity type {entity_type}; use user, client-id or ip.")
        if name == "":
            raise InvalidRequest(f"The name of the {entity_type} is empty. For the default leave it out.")
    if not types:
        raise InvalidRequest("The entity has no parts.")
    if IP in types and len(types) > 1:
        raise InvalidRequest("An ip cannot be combined with a user or client-id.")
    host = dict(entity).get(IP)
    if host is not None and host not in known_hosts:
        raise InvalidRequest(f"{host} is no IP address, and no host of this name was found.")


def _records(alteration: Alteration, current: Mapping[str, float]) -> list[Any]:
    """Raises InvalidRequest for what cannot be set; any quota that is not set may be removed."""
    keys = IP_KEYS if IP in dict(alteration.entity) else USER_AND_CLIENT_KEYS
    entity = tuple(QuotaEntity(entity_type=entity_type, entity_name=name) for entity_type, name in alteration.entity)
    records = []
    for key, value in alteration.ops:
        if value is not None:
            _check(keys, key, value)
        if value != current.get(key):
            records.append(ClientQuotaRecord(entity=entity, key=key, value=value or 0.0, remove=value is None))
    return records


def _check(keys: Mapping[str, Number], key: str, value: float) -> None:
    number = keys.get(key)
    if number is None:
        raise InvalidRequest(f"There is no quota {key} for this entity; there are: {', '.join(keys)}")
    if not isfinite(value):
        raise InvalidRequest(f"Quota {key} must be a finite number")
    if value <= 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    if number is Number.DOUBLE:
        return
    if value > number.value:
        raise InvalidRequest(f"The value for {key} is too large; the most is {int(number.value)}.")
    if value % 1.0 > 1e-6:
        raise InvalidRequest(f"{key} must be a whole number.")
