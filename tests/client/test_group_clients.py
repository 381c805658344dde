"""Groups of real consumers of each kind: they share a topic, and take over from members that leave or are killed."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.client import groups
from tests.client.group_history import history
from tests.client.groups import PARTITIONS, Crew, everything, produce


@pytest.mark.parametrize("kind", groups.KINDS)
def test_members_share_leave_and_die(kind: str, quick_cluster: str, topic: str) -> None:
    if reason := groups.missing(kind):
        pytest.skip(reason)
    admin = AdminClient({"bootstrap.servers": quick_cluster})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(groups.SECONDS)
    produce(quick_cluster, topic, 50)
    with Crew(quick_cluster, f"group-{topic}", topic) as crew:
        first, second = crew.start(kind), crew.start(kind)
        crew.wait_shared([first, second], PARTITIONS)
        third = crew.start(kind)
        crew.wait_shared([first, second, third], PARTITIONS)
        second.leave()
        second.wait_left()
        crew.wait_shared([first, third], PARTITIONS)
        first.kill()
        crew.wait_shared([third], PARTITIONS)
        produce(quick_cluster, topic, 50)
        crew.wait_for("all read", lambda: crew.read == everything(100))
        third.leave()
        third.wait_left()
        told = history(quick_cluster, crew.group)
        told.check(crew.members)
        assert told.committed() == dict.fromkeys(range(PARTITIONS), 100)
