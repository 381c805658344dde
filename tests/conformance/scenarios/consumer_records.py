"""What consumer groups write into `__consumer_offsets` (KIP-848's records)."""

from __future__ import annotations

from tests.conformance.consumer_members import LEAVES_FOR_A_WHILE, Classic, Group, wants
from tests.conformance.group_log import EXPRESSION, GroupLog
from tests.conformance.runner import Talk, scenario


@scenario("consumer_group_heartbeat", (1,))
def records(t: Talk, v: int) -> None:
    topic = t.topic("topic", 4)
    group = Group(t, v)
    a, b = group("a", topic, rack_id="rack"), group("b", topic, instance_id="i", server_assignor="range")
    log = GroupLog(group, topic)
    a.join("a joins")
    log.keep("records: a joined")
    a.beat("a goes on")
    a.full("a tells everything")
    log.keep("records: nothing new")
    b.join("b joins")
    log.keep("records: b joined")
    a.beat("a is told to revoke")
    log.keep("records: a revokes")
    a.owns("a has revoked")
    log.keep("records: a has revoked")
    b.beat("b gets its share", instance_id="i")
    log.keep("records: b has its share")
    a.beat("a wishes an assignor", server_assignor="range")
    log.keep("records: a wished")
    a.beat("a subscribes to one more", subscribed_topic_names=[topic.name, "nowhere"])
    log.keep("records: a subscribed")
    a.beat("a takes an expression", subscribed_topic_regex="nothing", subscribed_topic_names=[topic.name])
    log.until(EXPRESSION)
    log.keep("records: a took an expression")
    a.beat("a gives it up", subscribed_topic_regex="")
    log.keep("records: a gave it up")
    b.leave("b leaves for a while", LEAVES_FOR_A_WHILE)
    log.keep("records: b is away")
    b2 = group("b2", topic, instance_id="i", server_assignor="range")
    b2.join("b comes back")
    log.keep("records: b came back")
    b2.leave("b leaves for good")
    log.keep("records: b left")
    a.leave("a leaves")
    log.keep("records: a left")
    t.call("the group is deleted", "delete_groups", 2, {"groups_names": [group.group_id]})
    log.keep("records: nothing is left")


@scenario("consumer_group_heartbeat", (1,))
def records_of_migration(t: Talk, v: int) -> None:
    topic = t.topic("topic", 4)
    group = Group(t, v)
    party = Classic(group)
    c, m = party.leads("c", topic, 4), group("m", topic)
    log = GroupLog(group, topic)
    m.join("m joins")
    log.keep("records: the group went over", in_order=False)
    c.join("c is told, and joins", protocols=wants(topic, owned={topic.name: range(4)}))
    log.keep("records: c is to revoke")
    c.sync("c gets less")
    c.join("c joins again", protocols=wants(topic, owned={topic.name: range(2)}))
    log.keep("records: c has revoked")
    m.beat("m gets its share")
    log.keep("records: m has its share")
    m.leave("m leaves")
    log.keep("records: the group went back", in_order=False)
