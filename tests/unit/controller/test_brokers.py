"""A node's registration at its start, and its shutdown."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from controller.broker_changes import FENCED, UNFENCED
from controller.brokers import Registration, bootstrap, elect, register, resign, shut_down
from controller.decision import Decision
from controller.features import DEFAULTS, SUPPORTED
from metadata.configs import CLUSTER_DEFAULT, ResourceType
from metadata.image import EMPTY, MetadataImage
from metadata.settings import METADATA_VERSION
from metadata.topics import PartitionRegistration
from protocol.metadata.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord, RegisterControllerRecord
from protocol.metadata.topics import NO_LEADER, FeatureLevelRecord
from tests.unit.controller.images import PLAINTEXT, Schema, after, config, image_of, topic

SCHEMA = Schema()
FIRST, SECOND = UUID(int=41), UUID(int=42)


def registration(*directories: UUID, incarnation: int = 7) -> Registration:
    return Registration(1, UUID(int=incarnation), [PLAINTEXT], (), "rack", directories or (FIRST,))


def registered(image: MetadataImage, new: Registration | None = None) -> tuple[MetadataImage, Decision[int]]:
    """The image after the three steps of a start, and these as one decision."""
    new = new or registration()
    resigned = resign(image, SCHEMA, 1)
    image, records = after(image, resigned), [*resigned.records]
    made = register(image, new, image.offset + 1)
    image, records = after(image, made), [*records, *made.records]
    elected = elect(image, SCHEMA, new)
    return after(image, elected), Decision([*records, *elected.records], made.response)


def kinds(decision: Decision[Any]) -> list[str]:
    return [type(record).__name__ for record in decision.records]


def first(image: MetadataImage) -> PartitionRegistration:
    return image.topics.by_name["t"].partitions[0]


# -- what a cluster begins with


def test_a_new_cluster_begins_with_feature_levels_and_its_minimum_of_in_sync_replicas() -> None:
    decision = bootstrap(EMPTY, 2)
    image = after(EMPTY, decision)
    assert dict(image.features) == dict(DEFAULTS)
    assert decision.records[0] == FeatureLevelRecord(
        name=METADATA_VERSION, feature_level=DEFAULTS[METADATA_VERSION]
    )  # Kafka's loader wants it first
    assert dict(image.configs.of(ResourceType.BROKER, CLUSTER_DEFAULT)) == {"min.insync.replicas": "2"}
    assert not bootstrap(image, 3).records


def test_what_a_cluster_has_already_stays() -> None:
    image = image_of(
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=7),
        config(ResourceType.BROKER, CLUSTER_DEFAULT, "min.insync.replicas", "5"),
    )
    assert not bootstrap(image, 3).records
    without = image_of(FeatureLevelRecord(name=METADATA_VERSION, feature_level=7))
    assert bootstrap(without, 3).records == [config(ResourceType.BROKER, CLUSTER_DEFAULT, "min.insync.replicas", "3")]


# -- registration


def test_a_broker_is_registered_then_unfenced_and_its_epoch_is_the_registrations_offset() -> None:
    image = after(EMPTY, bootstrap(EMPTY, 1))
    image, decision = registered(image)
    assert kinds(decision) == [
        "RegisterControllerRecord",
        "RegisterBrokerRecord",
        "BrokerRegistrationChangeRecord",
    ]
    controller, new, change = decision.records
    assert isinstance(controller, RegisterControllerRecord)
    assert isinstance(new, RegisterBrokerRecord)
    offset = image.offset - 1
    assert (new.broker_epoch, decision.response) == (offset, offset)
    assert new.fenced
    assert change == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=offset, fenced=UNFENCED)
    assert {each.name: (each.min_supported_version, each.max_supported_version) for each in new.features} == SUPPORTED
    broker = image.cluster.brokers[1]
    assert (broker.fenced, broker.rack, broker.directories) == (False, "rack", (FIRST,))
    assert broker.listeners["PLAINTEXT"] == PLAINTEXT


def test_after_a_clean_stop_the_leader_epoch_is_two_higher() -> None:
    image, _ = registered(EMPTY)
    image = image_of(*topic("t", 1, [1]), image=image)
    decision = shut_down(image, SCHEMA, 1)
    assert kinds(decision) == [
        "BrokerRegistrationChangeRecord",
        "PartitionChangeRecord",
        "BrokerRegistrationChangeRecord",
    ]
    stopped = after(image, decision)
    assert first(stopped).leader == NO_LEADER
    broker = stopped.cluster.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown) == (True, True)
    again, _ = registered(stopped, registration(incarnation=8))
    assert (first(again).leader, first(again).leader_epoch) == (1, 2)
    broker = again.cluster.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.incarnation_id) == (False, False, UUID(int=8))


def test_after_a_kill_it_is_too() -> None:
    image, _ = registered(EMPTY)
    image = image_of(*topic("t", 1, [1]), image=image)
    again, decision = registered(image, registration(incarnation=8))
    assert kinds(decision) == [
        "PartitionChangeRecord",
        "RegisterControllerRecord",
        "RegisterBrokerRecord",
        "PartitionChangeRecord",  # its replica lies in the broker's only directory
        "BrokerRegistrationChangeRecord",
        "PartitionChangeRecord",
    ]
    assert (first(again).leader, first(again).leader_epoch) == (1, 2)
    assert decision.response == image.offset + 3  # its place among the records


def test_a_broker_with_another_directory_has_its_replicas_there() -> None:
    image, _ = registered(EMPTY)
    image = image_of(*topic("t", 1, [1]), image=image)
    moved, _ = registered(image, registration(SECOND))
    assert first(moved).directories == (SECOND,)
    several, _ = registered(image, registration(SECOND, FIRST))
    assert first(several).directories == first(image).directories


# -- shutdown


def test_a_broker_that_is_gone_already_needs_no_shutdown() -> None:
    assert not shut_down(EMPTY, SCHEMA, 1).records
    image, _ = registered(EMPTY)
    stopped = after(image, shut_down(image, SCHEMA, 1))
    assert not shut_down(stopped, SCHEMA, 1).records
    assert shut_down(image, SCHEMA, 1).records[-1] == BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=image.cluster.brokers[1].epoch, fenced=FENCED
    )
