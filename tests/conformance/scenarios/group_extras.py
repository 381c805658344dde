"""Less usual requests about streams groups and share groups: descriptions of topologies, deletions of offsets."""

from __future__ import annotations

from tests.conformance.runner import Talk, Topic, scenario
from tests.conformance.share_members import ShareGroup
from tests.conformance.streams_members import StreamsGroup, subtopology, topology

DESCRIPTION = "streams_group_topology_description_update"
SOURCE = 0


@scenario(DESCRIPTION)
def descriptions_of_topologies(t: Talk, v: int) -> None:
    topic = t.topic("topic", 1)
    group = StreamsGroup(t, 1)
    group.sees(topic)
    m = group("m", topology(subtopology("0", topic)))
    m.join("joins")
    node = {"name": "source", "node_type": SOURCE, "source_topics": [topic.name]}
    description = {"subtopologies": [{"subtopology_id": "0", "nodes": [node]}], "global_stores": []}

    def push(step: str, group_id: str, member_id: str, epoch: int) -> None:
        body = {"group_id": group_id, "member_id": member_id, "topology_epoch": epoch}
        t.call(step, DESCRIPTION, v, body | {"topology_description": description})

    push("of the group's topology", group.group_id, "m", 0)
    push("of a later epoch", group.group_id, "m", 1)
    push("by a stranger", group.group_id, "x", 0)
    push("of no group", t.prefix + "none", "m", 0)
    push("of an empty group id", "", "m", 0)
    m.leave("leaves")
    push("by one who has left", group.group_id, "m", 0)


def _delete(t: Talk, step: str, group_id: str, *topics: Topic | str) -> None:
    wanted = [
        {"name": topic.name if isinstance(topic, Topic) else topic, "partitions": [{"partition_index": 0}]}
        for topic in topics
    ]
    t.call(step, "offset_delete", 0, {"group_id": group_id, "topics": wanted})


@scenario("offset_delete")
def offsets_of_streams_groups(t: Talk, v: int) -> None:
    topic, other = t.topic("topic", 1), t.topic("other", 1)
    group = StreamsGroup(t, 1)
    group.sees(topic)
    m = group("m", topology(subtopology("0", topic)))
    m.join("joins")
    for one in (topic, other):
        partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1}
        body = {"group_id": group.group_id, "generation_id_or_member_epoch": m.epoch, "member_id": "m"}
        topics = [{"name": one.name, "partitions": [partition | {"committed_metadata": ""}]}]
        step = f"commits to {one.name.removeprefix(t.prefix)}"
        t.call(step, "offset_commit", 9, body | {"group_instance_id": None, "topics": topics})
    _delete(t, "of a source, and of a topic that is none", group.group_id, topic, other)
    _delete(t, "of an unknown topic", group.group_id, t.name("none"))
    m.leave("leaves")
    _delete(t, "of a source of an empty group", group.group_id, topic)
    _delete(t, "once more", group.group_id, topic)


@scenario("offset_delete")
def offsets_of_share_groups(t: Talk, v: int) -> None:
    topic = t.topic("topic", 1)
    group = ShareGroup(t)
    group.ready(topic)
    member = group("m", topic)
    member.join("joins")
    _delete(t, "with a member", group.group_id, topic)
    member.leave("leaves")
    _delete(t, "without", group.group_id, topic)
