"""Members of a consumer group that come by, change and lose instance ids."""

from __future__ import annotations

from tests.conformance.consumer_members import LEAVES_FOR_A_WHILE, Group
from tests.conformance.runner import Talk, scenario


@scenario("consumer_group_heartbeat", (0, 1))
def changes_its_instance(t: Talk, v: int) -> None:
    topic, other = t.topic("topic", 3), t.topic("other", 2)
    group = Group(t, v)
    group.sees(topic, other)
    m, n = group("m", topic), group("n", topic)
    m.join("m joins")
    m.beat("m wants both", subscribed_topic_names=[topic.name, other.name])
    m.beat("m wants one", subscribed_topic_names=[topic.name])
    m.owns("m has revoked")
    m.join("m joins with an instance id in epoch 3", instance_id="i1")
    group.describe("m is static")
    m.join("m joins with another", instance_id="i2")
    group.describe("m has the second")
    m.beat("m goes on with the first", instance_id="i1")
    m.beat("m goes on with the second", instance_id="i2")
    n.join("n takes the first", instance_id="i1")
    m.leave("m leaves for a while", LEAVES_FOR_A_WHILE, instance_id="i2")
    n.join("n takes the first again", instance_id="i1")
    group.describe("n is in the place of m")
    n.join("n takes the second", instance_id="i2")
    m.join("m comes back with the first", instance_id="i1")
    group.describe("after all")
