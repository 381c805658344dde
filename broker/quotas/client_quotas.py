"""The quotas that are set (KIP-546; Kafka's `ClientQuotaControlManager`), in the metadata store at `/quotas/`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from broker.metadata.store import MetadataStore, retrying
from broker.metadata.stored_entries import StoredEntries
from broker.quotas.entities import CLIENT_ID, DEFAULT, IP, IP_KEYS, USER, USER_AND_CLIENT_KEYS, Entity, Number
from protocol.errors import InvalidRequest, KafkaError

PREFIX = "/quotas/"

WireEntity = tuple[tuple[str, str | None], ...]
"""(type, name) of each part, each type once; None is the default's name."""

Resolve = Callable[[str], Awaitable[str | None]]
"""The address of a host, None if there is no such host."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """The change requested for one entity: values by quota, in the order of the request; None removes."""

    entity: WireEntity
    ops: Sequence[tuple[str, float | None]]


async def resolve(host: str) -> str | None:
    """Look up a host; an address resolves to itself, in its usual form."""
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, ValueError):  # ValueError for a name with characters that no host has
        return None
    return str(found[0][4][0])


class ClientQuotas:
    """The quotas of all entities. Reads are from memory, and see an alteration once the call that makes it returns."""

    def __init__(self, store: MetadataStore, resolve: Resolve) -> None:
        self._stored: StoredEntries[Entity] = StoredEntries(store, PREFIX, Entity.path, Entity.at)
        """`quotas` of each entity; for a host name, also its `address`."""
        self._resolve = resolve

    @classmethod
    async def open(cls, store: MetadataStore, resolve: Resolve = resolve) -> ClientQuotas:
        quotas = cls(store, resolve)
        await quotas._stored.open()
        return quotas

    def __iter__(self) -> Iterator[Entity]:
        return iter(self._stored)

    def of(self, entity: Entity) -> Mapping[str, float]:
        """The quotas set for exactly this entity."""
        quotas: Mapping[str, float] = self._stored.get(entity).get("quotas", {})
        return quotas

    def address_of(self, entity: Entity) -> str:
        """The address of an entity with quotas that names a host; the default's is empty."""
        return str(self._stored.get(entity).get("address", DEFAULT))

    def subscribe(self, listener: Callable[[Entity], None]) -> None:
        """Call `listener` with each entity whose quotas changed, after the change."""
        self._stored.subscribe(listener)

    async def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool
    ) -> dict[WireEntity, KafkaError | None]:
        """The outcome of each entity's alteration; those not refused become durable together.

        If an entity has two, the first is made, and the answer is the other's refusal. Raises MetadataStoreError.
        """
        alone = [one.entity[0] for one in alterations if len(one.entity) == 1]  # with other parts it is refused
        hosts = {name for entity_type, name in alone if entity_type == IP and name}
        addresses = {host: await self._resolve(host) for host in hosts}
        return await retrying(lambda: self._alter(alterations, addresses, validate_only))

    async def _alter(
        self, alterations: Sequence[Alteration], addresses: Mapping[str, str | None], validate_only: bool
    ) -> dict[WireEntity, KafkaError | None]:
        outcome: dict[WireEntity, KafkaError | None] = {}
        changed: dict[Entity, Mapping[str, Any]] = {}
        for one in alterations:
            try:
                if one.entity in outcome or len(dict(one.ops)) < len(one.ops):
                    raise InvalidRequest("An entity, or one of its quotas, is named twice.")
                entity = _entity(one.entity)
                address = _address(entity, addresses)
                quotas = _altered(entity, self.of(entity), dict(one.ops))
            except KafkaError as error:
                outcome[one.entity] = error
            else:
                outcome[one.entity] = None
                changed[entity] = {"quotas": quotas, "address": address} if quotas else {}
        if not validate_only:
            await self._stored.set(changed)
        return outcome


def _entity(named: WireEntity) -> Entity:
    """Raises InvalidRequest for an invalid entity."""
    parts: dict[str, str] = {}
    for entity_type, name in named:
        if entity_type not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {entity_type}")
        if name is not None and not name:
            raise InvalidRequest(f"Empty {entity_type} not supported")
        parts[entity_type.replace("-", "_")] = DEFAULT if name is None else name
    if not parts:
        raise InvalidRequest("Invalid empty client quota entity")
    if IP in parts and len(parts) > 1:
        raise InvalidRequest("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    return Entity(**parts)


def _address(entity: Entity, addresses: Mapping[str, str | None]) -> str:
    """Raises InvalidRequest for an unknown host."""
    if not entity.ip:
        return DEFAULT
    address = addresses[entity.ip]
    if address is None:
        raise InvalidRequest(f"{entity.ip} is not a valid IP or resolvable host.")
    return address


def _altered(entity: Entity, current: Mapping[str, float], ops: Mapping[str, float | None]) -> dict[str, float]:
    """The quotas set afterwards. Raises InvalidRequest for what cannot be set; any that is not set may be removed."""
    altered = dict(current)
    for key, value in ops.items():
        if value is None:
            altered.pop(key, None)
        else:
            _check(IP_KEYS if entity.ip is not None else USER_AND_CLIENT_KEYS, key, value)
            altered[key] = value
    return altered


def _check(keys: Mapping[str, Number], key: str, value: float) -> None:
    number = keys.get(key)
    if number is None:
        raise InvalidRequest(f"Invalid configuration key {key}")
    if value <= 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    if number is Number.DOUBLE:
        return
    if value > number.value:
        raise InvalidRequest(
            f"Proposed value for {key} is too large for {'an' if number is Number.INT else 'a'} {number.name}."
        )
    if value % 1.0 > 1e-6:
        raise InvalidRequest(f"{key} cannot be a fractional value.")
