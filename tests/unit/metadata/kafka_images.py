"""Images as Kafka's classes have them (tools/recorders/image_answers.py): what of an image is compared, and how.

A line of `image_answers.jsonl` is a delta: its `records`, and what they changed in Kafka's image, which is told as the
records of a snapshot: those that are new or different (`put`), and those that are not there any more (`gone`, as they
were). `new`: the image before is an empty one. Records are in base64, as in the log.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from metadata.image import MetadataImage
from metadata.snapshot import records_of
from protocol.metadata.brokers import RegisterBrokerRecord, RegisterControllerRecord
from protocol.metadata.serde import decode_record
from protocol.metadata.topics import ClientQuotaRecord, PartitionRecord

SNAPSHOTS_RECORDS = (
    ("AccessControlEntryRecord", ("id",)),
    ("ClientQuotaRecord", ("entity", "key")),
    ("ConfigRecord", ("resource_type", "resource_name", "name")),
    ("DelegationTokenRecord", ("token_id",)),
    ("FeatureLevelRecord", ("name",)),
    ("PartitionRecord", ("topic_id", "partition_id")),
    ("ProducerIdsRecord", ()),
    ("RegisterBrokerRecord", ("broker_id",)),
    ("RegisterControllerRecord", ("controller_id",)),
    ("TopicRecord", ("topic_id",)),
    ("UserScramCredentialRecord", ("name", "mechanism")),
)
"""What a snapshot consists of, and the fields that say what a record is about."""
_KEYS = dict(SNAPSHOTS_RECORDS)

State = dict[tuple[Any, ...], Any]
"""An image: its records by what they are about."""


def decoded(values: Iterable[str]) -> list[Any]:
    return [decode_record(b64decode(value)) for value in values]


def key_of(record: Any) -> tuple[Any, ...]:
    name = record.__class__.__name__
    return name, *(getattr(record, field) for field in _KEYS[name])


def state_of(records: Iterable[Any]) -> State:
    """An image's records, those parts of them in order whose order means nothing."""
    ordered = list(map(_ordered, records))
    state = {key_of(record): record for record in ordered}
    assert len(state) == len(ordered), "a snapshot says something twice"
    return state


def our_state(image: MetadataImage) -> State:
    return state_of(records_of(image))


def _ordered(record: Any) -> Any:
    if isinstance(record, RegisterBrokerRecord):
        record = replace(record, log_dirs=_sorted(record.log_dirs, str))
    if isinstance(record, RegisterBrokerRecord | RegisterControllerRecord):
        return replace(
            record,
            end_points=_sorted(record.end_points, lambda part: part.name),
            features=_sorted(record.features, lambda part: part.name),
        )
    if isinstance(record, ClientQuotaRecord):
        return replace(record, entity=_sorted(record.entity, lambda part: part.entity_type))
    if isinstance(record, PartitionRecord):
        # No directories mean that none is known, as does the id 0 for each: a replica of a release before 3.7.
        return replace(record, directories=record.directories if any(record.directories) else ())
    return record


def _sorted(parts: Iterable[Any], key: Callable[[Any], str]) -> tuple[Any, ...]:
    return tuple(sorted(parts, key=key))
