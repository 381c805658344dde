"""AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339; Kafka's `ConfigurationControlManager`).

Changes of a broker were checked by that broker before they came here.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.decision import ConfigSchema, Decision, Surroundings, require_few_records
from controller.replica_rules import MIN_ISR, elr_enabled
from metadata import topic_names
from metadata.configs import CLUSTER_DEFAULT, Resource, ResourceType
from metadata.image import MetadataImage
from protocol.errors import (
    InvalidConfiguration,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    UnknownTopicOrPartition,
)
from protocol.metadata.topics import ClearElrRecord, ConfigRecord

LONGEST_VALUE = 32_767
"""In UTF-16 units: the longest string that a record can hold (`ConfigurationControlManager.MAX_VALUE_SIZE`)."""


class AlterOp(enum.IntEnum):
    """The operations of IncrementalAlterConfigs, numbered as on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of a configuration; `operation` is the number on the wire."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """The changes of one resource; `incremental` ones modify what is set, others replace it."""

    resource_type: int
    name: str
    changes: Sequence[ConfigChange]
    incremental: bool


class UnknownOperationError(InvalidRequest):
    """An operation that does not exist. As in Kafka, all resources of the request fail with it."""


def decide(
    image: MetadataImage, wanted: Sequence[ResourceChange], around: Surroundings, *, validate_only: bool
) -> Decision[list[KafkaError | None]]:
    """Make every change that can be made; the response has each one's error, in the order of the changes.

    Raises PolicyViolation for too many of them.
    """
    errors: list[KafkaError | None] = []
    records: list[Any] = []
    for change in wanted:
        try:
            records += _records(image, change, around.schema)
        except UnknownOperationError as error:
            return Decision([], [error] * len(wanted))
        except KafkaError as error:
            errors.append(error)
        else:
            errors.append(None)
            require_few_records(len(records))
    return Decision([] if validate_only else records, errors)


def _records(image: MetadataImage, change: ResourceChange, schema: ConfigSchema) -> Iterator[Any]:
    resource = change.resource_type, change.name
    current = image.configs.of(*resource)
    altered = apply_changes(current if change.incremental else {}, change.changes, _lists(schema, change.resource_type))
    given = {each.name: altered[each.name] for each in change.changes if each.name in altered}
    _check(image, resource, schema.known(change.resource_type, altered) | given, schema)
    if change.resource_type in (ResourceType.TOPIC, ResourceType.BROKER):
        _require_short(altered.values())
    if elr_enabled(image):
        _check_min_isr(change, current, altered)
    yield from changed_records(resource, current, altered)
    if elr_enabled(image) and current.get(MIN_ISR) != altered.get(MIN_ISR):
        if change.resource_type == ResourceType.TOPIC:
            yield ClearElrRecord(topic_name=change.name)
        elif resource == (ResourceType.BROKER, CLUSTER_DEFAULT):
            yield ClearElrRecord(topic_name="")


def changed_records(resource: Resource, current: Mapping[str, str], altered: Mapping[str, str]) -> Iterator[Any]:
    """The records from one state of a resource to another, by name."""
    resource_type, resource_name = resource
    for name in sorted({*current, *altered}):
        if current.get(name) != altered.get(name):
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=altered.get(name)
            )


DefaultOfList = Callable[[str], str | None]
"""The default of a configuration that is a list; None for one that is none."""


def _lists(schema: ConfigSchema, resource_type: int) -> DefaultOfList:
    def default_of_list(name: str) -> str | None:
        return schema.default(resource_type, name) if schema.is_list(resource_type, name) else None

    return default_of_list


def apply_changes(
    current: Mapping[str, str], changes: Iterable[ConfigChange], default_of_list: DefaultOfList
) -> dict[str, str]:
    """Return the configurations after the changes. Raises InvalidConfiguration, and UnknownOperationError."""
    altered = dict(current)
    for change in changes:
        operation, value = known_operation(change), change.value or ""
        match operation:
            case AlterOp.SET:
                altered[change.name] = value
            case AlterOp.DELETE:
                altered.pop(change.name, None)
            case AlterOp.APPEND | AlterOp.SUBTRACT:
                default = default_of_list(change.name)
                if default is None:
                    raise InvalidConfiguration(f"{change.name} is no list, so {operation.name} does not apply to it.")
                altered[change.name] = ",".join(_combined(altered.get(change.name, default), operation, value))
    return altered


def known_operation(change: ConfigChange) -> AlterOp:
    """Raises UnknownOperationError for one that does not exist."""
    try:
        return AlterOp(change.operation)
    except ValueError:
        raise UnknownOperationError(f"There is no operation {change.operation}.") from None


def _combined(text: str, operation: AlterOp, value: str) -> list[str]:
    """The parts of a list with those of `value` at the end, unless they are in it; or without them, each once."""
    parts = [part for part in text.split(",") if part]
    if operation is AlterOp.APPEND:
        present = set(parts)
        return [*parts, *(part for part in dict.fromkeys(_parts(value)) if part not in present)]
    doomed = Counter(_parts(value))
    left = []
    for part in parts:
        if doomed[part]:
            doomed[part] -= 1
        else:
            left.append(part)
    return left


def _parts(text: str) -> list[str]:
    """The parts between commas, without empty ones at the end unless the text is empty."""
    parts = text.split(",")
    while text and parts and not parts[-1]:
        parts.pop()
    return parts


def _check(image: MetadataImage, resource: Resource, altered: Mapping[str, str], schema: ConfigSchema) -> None:
    resource_type, name = resource
    match resource_type:
        case ResourceType.TOPIC:
            _check_topic(image, name, altered, schema)
        case ResourceType.GROUP:
            if not name:
                raise InvalidRequest("A group config needs the group's name.")
            schema.check(resource_type, name, altered)
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise InvalidRequest("A client metrics config needs the subscription's name.")
            schema.check(resource_type, name, altered)


def _check_topic(image: MetadataImage, name: str, altered: Mapping[str, str], schema: ConfigSchema) -> None:
    if not name:
        raise InvalidRequest("A topic config needs the topic's name.")
    reason = topic_names.invalid_reason(name)
    if reason is not None:
        raise InvalidTopic(reason)
    schema.check(ResourceType.TOPIC, name, altered, image.configs.of(ResourceType.TOPIC, name))
    if image.topics.get(name) is None:
        raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")


def _require_short(values: Iterable[str]) -> None:
    """Raises InvalidConfiguration if appending made a value too long for a record."""
    if any(len(value.encode("utf-16-le")) // 2 > LONGEST_VALUE for value in values):
        raise InvalidConfiguration(f"A configuration value is longer than {LONGEST_VALUE}, the most a record can hold.")


def _check_min_isr(change: ResourceChange, current: Mapping[str, str], altered: Mapping[str, str]) -> None:
    """With eligible leader replicas (KIP-966) `min.insync.replicas` is set for the cluster, and stays set."""
    if change.resource_type != ResourceType.BROKER:
        return
    if change.name != CLUSTER_DEFAULT and any(each.name == MIN_ISR for each in change.changes):
        raise InvalidConfiguration("min.insync.replicas is set for the whole cluster, not for one broker.")
    if change.name == CLUSTER_DEFAULT and MIN_ISR in current and MIN_ISR not in altered:
        raise InvalidConfiguration("The cluster's min.insync.replicas can be changed, but not removed.")
