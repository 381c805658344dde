"""Requests that change the metadata, and a model of what they change.

The model (`State`) is made of plain dictionaries: topics with their numbers of partitions and retention, quotas and
SCRAM credentials of users, the next producer id, and the level of `share.version`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.create_partitions.v3 import CreatePartitionsRequest
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.create_topics.v7 import CreateTopicsRequest
from kio.schema.delete_topics.v6 import DeleteTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicState

from broker.membership.auto_create import wanted
from controller import (
    configs,
    create_partitions,
    create_topics,
    delete_topics,
    features,
    producer_ids,
    quotas,
    scram,
)
from controller.decision import Decision, NoQuota, Surroundings
from metadata.configs import ResourceType
from metadata.image import MetadataImage

SECOND = timedelta(seconds=1)
RETENTION = "retention.ms"
SHARE_VERSION = "share.version"


@dataclass(frozen=True)
class State:
    """What the requests have led to; topics are (partitions, retention) by name."""

    topics: dict[str, tuple[int, str | None]]
    quotas: dict[str, dict[str, float]]
    scram: dict[str, int]
    next_producer_id: int
    share_version: int

    def but(self, **changed: Any) -> State:
        return State(**{**self.__dict__, **changed})


EMPTY = State({}, {}, {}, 0, features.DEFAULTS[SHARE_VERSION])


def state_of(image: MetadataImage) -> State:
    """What the image says, in the model's words."""
    return State(
        {
            topic.name: (topic.partition_count, image.configs.of(ResourceType.TOPIC, topic.name).get(RETENTION))
            for topic in image.topics
        },
        {str(key[0][1]): dict(values) for key, values in image.quotas.items()},
        {user: record.iterations for (user, _), record in image.scram.items()},
        image.next_producer_id,
        image.features.get(SHARE_VERSION, 0) if image.features else EMPTY.share_version,
    )


@dataclass(frozen=True)
class Request:
    """`decide` as the controller is asked, and `apply` as the model has it."""

    decide: Callable[[MetadataImage, Surroundings], Decision[Any]]
    apply: Callable[[State], State]


def create(names: tuple[str, ...], count: int, retention: str | None) -> Request:
    """All at once: none is seen without the others."""
    given = {} if retention is None else {RETENTION: retention}
    topics = tuple(wanted(name, count, 1, given) for name in names)
    request = CreateTopicsRequest(topics=topics, timeout=SECOND, validate_only=False)

    def apply(state: State) -> State:
        new = {name: (count, retention) for name in names if name not in state.topics}
        return state.but(topics={**state.topics, **new})

    return Request(lambda image, around: create_topics.decide(image, request, around, NoQuota()), apply)


def delete(names: tuple[str, ...]) -> Request:
    topics = tuple(DeleteTopicState(name=name, topic_id=None) for name in names)
    request = DeleteTopicsRequest(topics=topics, timeout=SECOND)

    def apply(state: State) -> State:
        return state.but(topics={name: topic for name, topic in state.topics.items() if name not in names})

    return Request(lambda image, _: delete_topics.decide(image, request, NoQuota()), apply)


def again(name: str, count: int) -> list[Request]:
    """A topic deleted and made anew, by two requests."""
    return [delete((name,)), create((name,), count, None)]


def grow(name: str, count: int) -> Request:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=(topic,), timeout=SECOND, validate_only=False)

    def apply(state: State) -> State:
        found = state.topics.get(name)
        if found is None or found[0] >= count:
            return state
        return state.but(topics={**state.topics, name: (count, found[1])})

    return Request(lambda image, _: create_partitions.decide(image, request, NoQuota()), apply)


def retain(name: str, retention: str | None) -> Request:
    operation = configs.AlterOp.DELETE if retention is None else configs.AlterOp.SET
    change = configs.ResourceChange(
        ResourceType.TOPIC, name, [configs.ConfigChange(RETENTION, operation, retention)], incremental=True
    )

    def apply(state: State) -> State:
        found = state.topics.get(name)
        return state if found is None else state.but(topics={**state.topics, name: (found[0], retention)})

    return Request(lambda image, around: configs.decide(image, [change], around, validate_only=False), apply)


def set_quotas(user: str, values: dict[str, float | None]) -> Request:
    alteration = quotas.Alteration((("user", user),), list(values.items()))

    def apply(state: State) -> State:
        merged = {**state.quotas.get(user, {}), **values}
        left = {key: value for key, value in merged.items() if value is not None}
        others = {name: own for name, own in state.quotas.items() if name != user}
        return state.but(quotas={**others, user: left} if left else others)

    return Request(lambda image, _: quotas.decide(image, [alteration], frozenset(), validate_only=False), apply)


def set_credential(user: str, iterations: int | None) -> Request:
    alteration: scram.Alteration = scram.ScramDeletion(user, scram.ScramMechanism.SCRAM_SHA_256)
    if iterations is not None:
        alteration = scram.ScramUpsertion(user, scram.ScramMechanism.SCRAM_SHA_256, iterations, b"salt", b"password")

    def apply(state: State) -> State:
        others = {name: number for name, number in state.scram.items() if name != user}
        return state.but(scram=others if iterations is None else {**others, user: iterations})

    return Request(lambda image, _: scram.decide(image, [alteration]), apply)


def take_producer_ids() -> Request:
    return Request(
        lambda image, _: producer_ids.decide(image, 1, 5),
        lambda state: state.but(next_producer_id=state.next_producer_id + producer_ids.BLOCK_SIZE),
    )


def set_share_version(level: int) -> Request:
    def decide(image: MetadataImage, around: Surroundings) -> Decision[bool]:
        rises = level > image.features.get(SHARE_VERSION, 0)
        kind = features.UPGRADE if rises else features.SAFE_DOWNGRADE
        update = [features.FeatureUpdate(SHARE_VERSION, level, kind)]
        return features.decide(image, update, around.schema, kraft_version=0, validate_only=False)

    def apply(state: State) -> State:
        return state.but(share_version=level)

    return Request(decide, apply)
