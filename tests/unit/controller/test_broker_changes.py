"""Who leads, who is in sync and who is eligible when brokers come and go."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from controller import broker_changes
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration
from protocol.metadata.brokers import BrokerRegistrationChangeRecord
from protocol.metadata.topics import NO_LEADER, FeatureLevelRecord, PartitionChangeRecord
from tests.unit.controller.images import Schema, broker, directory, image_of, partition, topic

ELR = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
BROKERS = (broker(1), broker(2), broker(3))
ALONE = image_of(ELR, broker(1), *topic("t", 1, [1], [1]))
THREE = image_of(ELR, *BROKERS, *topic("t", 1, [1, 2, 3], configs={"min.insync.replicas": "2"}))
SCHEMA = Schema()


def first(image: MetadataImage) -> PartitionRegistration:
    return image.topics.by_name["t"].partitions[0]


def fenced(image: MetadataImage, *broker_ids: int) -> MetadataImage:
    for broker_id in broker_ids:
        image = image_of(*broker_changes.fence(image, SCHEMA, broker_id), image=image)
    return image


def unfenced(image: MetadataImage, broker_id: int) -> MetadataImage:
    return image_of(*broker_changes.unfence(image, SCHEMA, broker_id), image=image)


def crashed(image: MetadataImage, broker_id: int) -> MetadataImage:
    return image_of(*broker_changes.crashed(image, SCHEMA, broker_id), image=image)


def state(image: MetadataImage) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Leader, ISR, eligible replicas, last known leader."""
    found = first(image)
    return found.leader, found.isr, found.elr, found.last_known_elr


def test_elr_the_only_replica_leaves_no_leader_and_is_eligible() -> None:
    assert broker_changes.fence(ALONE, SCHEMA, 1)[1] == PartitionChangeRecord(
        topic_id=UUID(int=1),
        partition_id=1,
        isr=(),
        leader=NO_LEADER,
        eligible_leader_replicas=(1,),
        last_known_elr=(1,),
    )
    assert state(fenced(ALONE, 1)) == (NO_LEADER, (), (1,), (1,))


def test_it_leads_again_when_it_is_back_with_the_next_leader_epoch() -> None:
    back = unfenced(fenced(ALONE, 1), 1)
    assert state(back) == (1, (1,), (), ())
    assert first(back).leader_epoch == first(ALONE).leader_epoch + 2


@pytest.mark.parametrize("keeps_alone", [True, False])
def test_the_only_replica_leads_again_after_a_crash_too(keeps_alone: bool) -> None:
    records = broker_changes.crashed(ALONE, SCHEMA, 1, keeps_alone=keeps_alone)
    back = unfenced(image_of(*records, image=ALONE), 1)
    assert state(back) == (1, (1,), (), ())
    assert first(back).leader_recovery_state == (not keeps_alone)


def test_with_others_in_the_isr_the_next_replica_leads_until_too_few_are_left() -> None:
    assert state(fenced(THREE, 1)) == (2, (2, 3), (), ())
    assert state(fenced(THREE, 1, 2)) == (3, (3,), (2,), ())
    assert state(fenced(THREE, 1, 2, 3)) == (NO_LEADER, (), (2, 3), (3,))


def test_a_follower_that_leaves_changes_the_isr_alone_and_a_stranger_nothing() -> None:
    image = fenced(THREE, 3)
    assert state(image) == (1, (1, 2), (), ())
    assert first(image).leader_epoch == first(THREE).leader_epoch
    assert not list(broker_changes.leave(image, SCHEMA, 3))


def test_elr_an_eligible_leader_replica_leads_when_it_is_back_and_no_other() -> None:
    image = fenced(THREE, 1, 2, 3)
    assert state(unfenced(image, 1)) == state(image)
    assert state(unfenced(image, 2)) == (2, (2,), (3,), ())


def test_elr_after_a_crash_a_replica_is_not_eligible_and_the_last_known_leader_leads() -> None:
    image = crashed(crashed(fenced(THREE, 1, 2, 3), 2), 3)
    assert state(image) == (NO_LEADER, (), (), (3,))
    assert state(unfenced(image, 2)) == state(image)
    back = unfenced(image, 3)
    assert state(back) == (3, (3,), (), ())
    assert first(back).leader_recovery_state == 1


def test_unclean_leader_election_is_made_only_where_it_is_enabled() -> None:
    image = fenced(THREE, 1, 2, 3)
    allowed = image_of(*topic("t", 1, configs={"unclean.leader.election.enable": "true"})[1:], image=image)
    back = unfenced(allowed, 1)
    assert state(back) == (1, (1,), (), ())
    assert first(back).leader_recovery_state == 1
    up = unfenced(image, 1)
    assert not broker_changes.elect_uncleanly(up, SCHEMA, 10)
    up = image_of(*topic("t", 1, configs={"unclean.leader.election.enable": "true"})[1:], image=up)
    assert state(image_of(*broker_changes.elect_uncleanly(up, SCHEMA, 10), image=up))[0] == 1


def test_without_elr_the_last_of_the_isr_stays_in_it() -> None:
    without = image_of(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0), image=THREE)
    image = fenced(without, 1, 2, 3)
    assert state(image) == (NO_LEADER, (3,), (), ())
    assert state(unfenced(image, 2)) == state(image)
    assert state(unfenced(image, 3)) == (3, (3,), (), ())


def test_who_is_no_replica_is_never_elected() -> None:
    image = image_of(broker(2, fenced=True), partition(1, 0, [1], isr=(2,), leader=NO_LEADER), image=ALONE)
    assert list(broker_changes.unfence(image, SCHEMA, 2)) == [
        BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=5, fenced=-1)
    ]


def test_a_controlled_shutdown_moves_the_leaderships_and_leaves_the_broker_unfenced() -> None:
    records = broker_changes.begin_controlled_shutdown(THREE, SCHEMA, 1)
    image = image_of(*records, image=THREE)
    assert state(image) == (2, (2, 3), (), ())
    assert (image.cluster.brokers[1].fenced, image.cluster.brokers[1].in_controlled_shutdown) == (False, True)
    assert not list(broker_changes.begin_controlled_shutdown(image, SCHEMA, 1))
    assert not broker_changes.leads_something(image, 1)
    assert broker_changes.leads_something(image, 2)


def test_a_broker_that_is_unregistered_is_neither_in_sync_nor_eligible() -> None:
    image = fenced(THREE, 1, 2)
    for broker_id in (3, 2):
        image = image_of(*broker_changes.unregister(image, SCHEMA, broker_id)[0], image=image)
    assert sorted(image.cluster.brokers) == [1]
    assert state(image)[:2] == (NO_LEADER, ())


def test_replicas_in_a_directory_that_fails_lead_nothing() -> None:
    other = UUID(int=77)
    image = image_of(broker(1, log_dirs=(directory(1), other)), image=THREE)
    records, _ = broker_changes.directories_failed(image, SCHEMA, 1, [directory(1), directory(2)])
    after = image_of(*records, image=image)
    assert state(after) == (2, (2, 3), (), ())
    assert after.cluster.brokers[1].directories == (other,)
    assert broker_changes.directories_failed(after, SCHEMA, 1, [directory(1)]) == ([], True)
    assert state(fenced(after, 2, 3))[0] == NO_LEADER  # nor later
    assert broker_changes.directories_failed(THREE, SCHEMA, 1, [other]) == ([], True)


def test_preferred_leaders_lead_again_a_few_at_a_time() -> None:
    image = image_of(*topic("u", 2, [2, 3], [2, 1], [3, 1]), image=THREE)
    image = fenced(image, 2)
    image = image_of(broker(2), image=image)
    partitions = image.topics.by_name["u"].partitions
    assert [partitions[index].leader for index in range(3)] == [3, 1, 3]
    assert not broker_changes.elect_preferred(image, SCHEMA, 10)  # it is not in sync
    image = image_of(*(partition(2, index, [2, 3], leader=3) for index in range(3)), image=image)
    assert len(broker_changes.elect_preferred(image, SCHEMA, 2)) == 2
    image = image_of(*broker_changes.elect_preferred(image, SCHEMA, 10), image=image)
    assert [image.topics.by_name["u"].partitions[index].leader for index in range(3)] == [2, 2, 2]


@pytest.mark.parametrize("change", [broker_changes.fence, broker_changes.unfence])
def test_a_broker_without_partitions_changes_itself_alone(change: Any) -> None:
    image = image_of(*BROKERS)
    (record,) = change(image, SCHEMA, 2)
    assert isinstance(record, BrokerRegistrationChangeRecord)
