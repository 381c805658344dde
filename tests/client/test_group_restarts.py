"""A group outlives its broker's kill -9 with no rebalance, and static members outlive their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker
from tests.brokers import sound_broker
from tests.client import groups
from tests.client.group_history import history
from tests.client.groups import PARTITIONS, SETTINGS, Crew, Member, everything, produce

RANGE_KINDS = ("aiokafka", "confluent-range", "kafka-python", "java")
NEW_KINDS = ("confluent-new", "java-new")


@pytest.fixture
def broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def crew(broker: Broker, topic: str) -> Iterator[Crew]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(groups.SECONDS)
    produce(broker.bootstrap_servers, topic, 10)
    with Crew(broker.bootstrap_servers, f"group-{topic}", topic) as crew:
        yield crew


def test_members_of_any_client_go_on_after_the_broker_is_killed(broker: Broker, crew: Crew) -> None:
    # The Java client, where it leads, rejoins by itself once it has found no broker at all: so it does not lead here.
    members: list[Member] = []
    for kind in RANGE_KINDS:
        if groups.missing(kind) is None:
            members.append(crew.start(kind))
            crew.wait_shared(members, PARTITIONS)
    crew.wait_for("all read", lambda: crew.read == everything(10))
    before = history(crew.bootstrap, crew.group).assignments
    broker.kill()
    broker.restart()
    produce(crew.bootstrap, crew.topic, 10)
    crew.wait_for("all read", lambda: crew.read == everything(20))
    assert history(crew.bootstrap, crew.group).assignments == before


def test_members_of_the_new_protocol_go_on_after_the_broker_is_killed(broker: Broker, crew: Crew) -> None:
    members = [crew.start(kind) for kind in NEW_KINDS if groups.missing(kind) is None]
    crew.wait_shared(members, PARTITIONS)
    crew.wait_for("all read", lambda: crew.read == everything(10))
    before = history(crew.bootstrap, crew.group)
    broker.kill()
    broker.restart()
    produce(crew.bootstrap, crew.topic, 10)
    crew.wait_for("all read", lambda: crew.read == everything(20))
    told = history(crew.bootstrap, crew.group)
    told.check(crew.members)
    assert (told.epochs, told.held) == (before.epochs, before.held)


def wait_for_share(crew: Crew, instance: str, member: Member, share: frozenset[int]) -> None:
    crew.wait_for(f"{instance} is back", lambda: member.owned == share)


@pytest.mark.parametrize("kind", RANGE_KINDS)
def test_a_static_member_takes_its_place_again(kind: str, broker: Broker, crew: Crew) -> None:
    if reason := groups.missing(kind):
        pytest.skip(reason)
    leader = crew.start(kind, "instance-1")
    crew.wait_shared([leader], PARTITIONS)
    follower = crew.start(kind, "instance-2")
    crew.wait_shared([leader, follower], PARTITIONS)
    shares = {"instance-1": leader.owned, "instance-2": follower.owned}
    generation = history(crew.bootstrap, crew.group).assignments[-1][0]
    for instance, member in (("instance-2", follower), ("instance-1", leader)):
        member.kill()
        again = crew.start(kind, instance)
        wait_for_share(crew, instance, again, shares[instance])
    for member in crew.members:
        member.kill()
    broker.kill()
    broker.restart()
    back = [crew.start(kind, instance) for instance in shares]
    crew.wait_for("both are back", lambda: [member.owned for member in back] == list(shares.values()))
    produce(crew.bootstrap, crew.topic, 10)
    crew.wait_for("all read", lambda: crew.read == everything(20))
    told = history(crew.bootstrap, crew.group)
    told.check(crew.members)
    assert told.assignments[-1][0] == generation
