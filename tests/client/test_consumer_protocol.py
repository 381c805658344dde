"""Clients that speak KIP-848's protocol share groups with each other and, while a group is upgraded, with the rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient, NewTopic

from tests.client import groups
from tests.client.group_history import history
from tests.client.groups import PARTITIONS, Crew, Member, everything, produce

NEW, CLASSIC = ("confluent-new", "java-new"), "confluent-range"


@pytest.fixture
def admin(quick_cluster: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": quick_cluster})


@pytest.fixture
def crew(quick_cluster: str, admin: AdminClient, topic: str) -> Iterator[Crew]:
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(groups.SECONDS)
    with Crew(quick_cluster, f"group-{topic}", topic) as crew:
        yield crew


@pytest.fixture
def kinds() -> tuple[str, ...]:
    for kind in NEW:
        if reason := groups.missing(kind):
            pytest.skip(reason)
    return NEW


def kind_of(admin: AdminClient, group: str) -> ConsumerGroupType:
    listed = admin.list_consumer_groups().result(groups.SECONDS)
    kind: ConsumerGroupType = next(one.type for one in listed.valid if one.group_id == group)
    return kind


def wait_read(crew: Crew, count: int) -> None:
    crew.wait_for("all read", lambda: crew.read == everything(count))


def read_once(crew: Crew) -> None:
    assert sum(len(member.read) for member in crew.members) == len(crew.read)


def replace(crew: Crew, gone: Member, kind: str, others: list[Member]) -> Member:
    """Start one of another kind, then have the old one leave."""
    new = crew.start(kind)
    crew.wait_shared([gone, *others, new], PARTITIONS)
    gone.leave()
    gone.wait_left()
    crew.wait_shared([*others, new], PARTITIONS)
    return new


def test_every_record_is_read_once_and_offsets_stay(crew: Crew, admin: AdminClient, kinds: tuple[str, ...]) -> None:
    produce(crew.bootstrap, crew.topic, 50)
    first, second = (crew.start(kind) for kind in kinds)
    crew.wait_shared([first, second], PARTITIONS)
    wait_read(crew, 50)
    assert kind_of(admin, crew.group) is ConsumerGroupType.CONSUMER
    first.leave()
    first.wait_left()
    crew.wait_shared([second], PARTITIONS)
    produce(crew.bootstrap, crew.topic, 50)
    wait_read(crew, 100)
    second.leave()
    second.wait_left()
    produce(crew.bootstrap, crew.topic, 10)
    third = crew.start(kinds[0])
    crew.wait_for("the rest read", lambda: third.read == everything(110) - everything(100))
    third.leave()
    third.wait_left()
    read_once(crew)
    told = history(crew.bootstrap, crew.group)
    told.check(crew.members)
    assert told.committed() == dict.fromkeys(range(PARTITIONS), 110)


def test_a_group_goes_over_and_back_member_by_member(crew: Crew, admin: AdminClient, kinds: tuple[str, ...]) -> None:
    produce(crew.bootstrap, crew.topic, 20)
    members = [crew.start(CLASSIC), crew.start(CLASSIC)]
    crew.wait_shared(members, PARTITIONS)
    wait_read(crew, 20)
    assert kind_of(admin, crew.group) is ConsumerGroupType.CLASSIC
    count = 20
    for replacing, becomes in ((kinds, ConsumerGroupType.CONSUMER), ((CLASSIC, CLASSIC), ConsumerGroupType.CLASSIC)):
        for kind in replacing:
            gone, other = members
            members = [other, replace(crew, gone, kind, [other])]
            count += 20
            produce(crew.bootstrap, crew.topic, 20)
            wait_read(crew, count)
        assert kind_of(admin, crew.group) is becomes
    for member in members:
        member.leave()
    for member in members:
        member.wait_left()
    read_once(crew)
    told = history(crew.bootstrap, crew.group)
    told.check(crew.members)
    assert told.epochs
    assert told.committed() == dict.fromkeys(range(PARTITIONS), count)
