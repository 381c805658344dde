"""Groups of real consumers of each kind: they share a topic, and take over from members that leave or are killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.brokers import sound_broker
from tests.client import groups
from tests.client.groups import PARTITIONS, SETTINGS, Crew, everything, history, produce


@pytest.fixture(scope="module")
def quick_broker(own_cluster: None) -> Iterator[str]:
    """With sessions of a few seconds and no initial delay."""
    with sound_broker(SETTINGS) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("kind", groups.KINDS)
def test_members_share_leave_and_die(kind: str, quick_broker: str, topic: str) -> None:
    if reason := groups.missing(kind):
        pytest.skip(reason)
    admin = AdminClient({"bootstrap.servers": quick_broker})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(groups.SECONDS)
    produce(quick_broker, topic, 50)
    with Crew(quick_broker, f"group-{topic}", topic) as crew:
        first, second = crew.start(kind), crew.start(kind)
        crew.wait_shared([first, second], PARTITIONS)
        third = crew.start(kind)
        crew.wait_shared([first, second, third], PARTITIONS)
        second.leave()
        second.wait_left()
        crew.wait_shared([first, third], PARTITIONS)
        first.kill()
        crew.wait_shared([third], PARTITIONS)
        produce(quick_broker, topic, 50)
        crew.wait_for("all read", lambda: crew.read == everything(100))
        third.leave()
        third.wait_left()
        told = history(quick_broker, crew.group)
        told.check(crew.members)
        assert told.committed() == dict.fromkeys(range(PARTITIONS), 100)
