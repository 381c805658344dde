"""StreamsGroupHeartbeat and StreamsGroupDescribe (KIP-1071): members, their topology, and the tasks they get."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer_members import Group
from tests.conformance.runner import Talk, scenario
from tests.conformance.share_members import ShareGroup
from tests.conformance.streams_members import (
    LEAVES_FOR_A_WHILE,
    TASKS,
    StreamsGroup,
    internal,
    subtopology,
    tasks,
    topology,
)

VERSIONS = (0, 1)


@scenario("streams_group_heartbeat", VERSIONS)
def streams_member_alone(t: Talk, v: int) -> None:
    topic = t.topic("topic", 3)
    group = StreamsGroup(t, v)
    group.describe("nobody yet")
    group.sees(topic)
    m = group("m", topology(subtopology("0", topic)))
    m.join("joins")
    group.describe("Stable")
    m.beat("nothing new")
    m.owns("what it owns")
    m.beat("less than it was assigned", active_tasks=[tasks("0", 0)], standby_tasks=[], warmup_tasks=[])
    m.join("joins again in epoch 0")
    m.beat("a process id", process_id="another")
    m.beat("a rack", rack_id="rack")
    m.beat("tags", client_tags=[{"key": "zone", "value": "a"}])
    m.beat("an endpoint", user_endpoint={"host": "localhost", "port": 9090})
    group.describe("with an endpoint")
    m.beat("the endpoints' epoch", endpoint_information_epoch=1)
    m.beat("a timeout", rebalance_timeout=30_000)
    m.beat("offsets", task_offsets=[{"subtopology_id": "0", "partition": 0, "offset": 7}])
    m.leave("leaves")
    group.describe("Empty")
    m.leave("leaves again")
    m.beat("goes on after all", member_epoch=1)
    m.join("joins after all")
    m.beat("a clean goodbye of all", shutdown_application=True)
    m.beat("told to shut down")
    late = group("late", topology(subtopology("0", topic)))
    late.join("a newcomer is told too")
    m.leave("leaves at last")
    late.leave("late leaves")
    late.join("after all left")


@scenario("streams_group_heartbeat", VERSIONS)
def streams_epochs(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    group = StreamsGroup(t, v)
    group.sees(topic)
    m = group("m", topology(subtopology("0", topic)))
    m.join("joins")
    known = m.epoch
    for step, epoch in (("newer", known + 1), ("far ahead", known + 90), ("older", known - 1), ("-3", -3)):
        m.beat(step, member_epoch=epoch)
        m.epoch = known
    other = group("other", m.topology)
    other.join("another joins")
    m.beat("is told to give up some")
    m.owns("has given up some")
    m.beat("nothing new")
    m.beat("the epoch before", member_epoch=known)
    stranger = group("stranger", m.topology)
    stranger.beat("a stranger", member_epoch=known)
    stranger.leave("a stranger leaves")
    other.owns("the other has some")
    group.describe("both")
    m.leave("m leaves")
    other.beat("the other gets all")
    other.owns("and has them")


@scenario("streams_group_heartbeat", VERSIONS)
def streams_requests_that_are_refused(t: Talk, v: int) -> None:
    topic = t.topic("topic")
    group = StreamsGroup(t, v)
    group.sees(topic)
    m = group("m", topology(subtopology("0", topic)))
    for missing in ("topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id"):
        m.join(f"without {missing}", **{missing: None})
    m.join("without a timeout", rebalance_timeout=-1)
    m.join("a timeout of 0", rebalance_timeout=0)
    for kind in ("active_tasks", "standby_tasks", "warmup_tasks"):
        m.join(f"with {kind}", **{kind: [tasks("0", 0)]})
    m.join("no member id", member_id="")
    m.join("no group id", group_id="")
    m.join("a blank group id", group_id=" ")
    m.join("an empty instance id", instance_id="")
    m.join("an empty rack", rack_id="")
    m.leave("leaves no group")
    m.join("joins")
    m.beat("a topology later", topology=m.topology)
    m.beat("unknown tasks", active_tasks=[tasks("9", 0)], standby_tasks=[], warmup_tasks=[])
    m.beat("tasks of a partition that there is not", active_tasks=[tasks("0", 9)], standby_tasks=[], warmup_tasks=[])
    m.beat("only active tasks", active_tasks=[tasks("0", 0)])
    m.beat("a task twice", active_tasks=[tasks("0", 0), tasks("0", 0)], standby_tasks=[], warmup_tasks=[])


@scenario("streams_group_heartbeat", VERSIONS)
def streams_topologies(t: Talk, v: int) -> None:
    """Topologies that are wrong in themselves, and another one than the group's."""
    topic, second = t.topic("topic", 2), t.topic("second", 2)
    changelog, repartition = t.name("changelog"), t.name("repartition")

    def join(step: str, *subtopologies: dict[str, Any], epoch: int = 0) -> None:
        group = StreamsGroup(t, v, f"of {step}")
        group("m", topology(*subtopologies, epoch=epoch)).join(step)

    join("without subtopologies")
    join("without a source", subtopology("0"))
    join("a source with a bad name", subtopology("0", "a b"))
    join("an internal source", subtopology("0", "__consumer_offsets"))
    join("a regular expression", subtopology("0", topic, source_topic_regex=["x.*"]))
    join("a subtopology twice", subtopology("0", topic), subtopology("0", second))
    join("a changelog with a size", subtopology("0", topic, state_changelog_topics=[internal(changelog, 3)]))
    join("a source that nobody fills", subtopology("0", topic, repartition_source_topics=[internal(repartition)]))
    itself = {"repartition_source_topics": [internal(repartition)], "repartition_sink_topics": [repartition]}
    join("a loop", subtopology("0", **itself))
    wrong = [{"source_topics": [4], "source_topic_regex": [], "repartition_source_topics": []}]
    join("an index out of range", subtopology("0", topic, copartition_groups=wrong))
    join("a negative epoch", subtopology("0", topic), epoch=-1)
    group = StreamsGroup(t, v, "changes")
    group.sees(topic, second)
    first = group("first", topology(subtopology("0", topic)))
    first.join("the first topology")
    group("another", topology(subtopology("0", second))).join("another topology")
    group("newer", topology(subtopology("0", topic), epoch=1)).join("a newer epoch")
    group("same", first.topology).join("the same topology")
    group.describe("two with one topology")


@scenario("streams_group_heartbeat", VERSIONS)
def streams_sources(t: Talk, v: int) -> None:
    """Sources that are missing, or do not fit together; all goes on by itself when that is mended."""
    topic = t.topic("topic", 2)
    group = StreamsGroup(t, v)
    group.sees(topic)
    missing = t.name("missing")
    m = group("m", topology(subtopology("0", topic, missing)))
    m.join("a source is missing")
    group.describe("NotReady")
    t.topic("missing", 3)
    m.settle("the source is there")
    group.describe("Stable")
    small = t.topic("small", 1)
    together = [{"source_topics": [0, 1], "source_topic_regex": [], "repartition_source_topics": []}]
    other = StreamsGroup(t, v, "copartitioned")
    other.sees(topic, small)
    c = other("c", topology(subtopology("0", topic, small, copartition_groups=together)))
    c.join("sources of different sizes")
    other.describe("NotReady for their sizes")
    grown = [{"name": small.name, "count": 2, "assignments": None}]
    t.main.call("create_partitions", 3, {"topics": grown, "timeout": 5000, "validate_only": False})
    c.settle("sources of the same size")
    other.describe("Stable with both")


@scenario("streams_group_heartbeat", VERSIONS)
def streams_internal_topics(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    changelog, repartition, fixed = (t.name(name) for name in ("changelog", "repartition", "fixed"))
    group = StreamsGroup(t, v)
    group.sees(topic)
    m = group(
        "m",
        topology(
            subtopology("0", topic, repartition_sink_topics=[repartition, fixed]),
            subtopology(
                "1",
                repartition_source_topics=[internal(repartition, 4), internal(fixed, 3)],
                state_changelog_topics=[internal(changelog, cleanup_policy="compact")],
            ),
        ),
    )
    m.join("internal topics are missing")
    m.settle("they are made")
    group.describe("with internal topics")
    for name in (changelog, repartition, fixed):
        body = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        answer = t.main.call("metadata", 9, body)["topics"][0]
        t.keep(f"{name.removeprefix(t.prefix)}: partitions", len(answer["partitions"]))
        wanted = {"resource_type": 2, "resource_name": name, "configuration_keys": ["cleanup.policy"]}
        t.call(
            f"{name.removeprefix(t.prefix)}: policy",
            "describe_configs",
            4,
            {"resources": [wanted]},
            ignore=("config_id",),
        )


@scenario("streams_group_heartbeat", VERSIONS)
def streams_static_members(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    group = StreamsGroup(t, v)
    group.sees(topic)
    shape = topology(subtopology("0", topic))
    a = group("a", shape, instance_id="i")
    a.join("joins")
    group("b", shape, instance_id="i").join("another with the same instance")
    a.beat("names no instance")
    a.beat("another instance", instance_id="j")
    group("c", shape, instance_id="x").beat("an unknown instance", member_epoch=1, instance_id="x")
    a.leave("goes away for a while", LEAVES_FOR_A_WHILE)
    group.describe("while it is away")
    d = group("d", shape, instance_id="i")
    d.join("its successor")
    a.beat("the former member", instance_id="i")
    d.leave("leaves for good")
    group.describe("Empty")


@scenario("streams_group_heartbeat", VERSIONS)
def streams_tasks_of_several(t: Talk, v: int) -> None:
    """How many tasks each has, not which: nobody promises which."""
    topic = t.topic("topic", 6)
    group = StreamsGroup(t, v, streams_num_standby_replicas="1")
    group.sees(topic)
    group.configure(streams_num_standby_replicas="1")
    shape = topology(subtopology("0", topic, state_changelog_topics=[internal(t.name("store-changelog"))]))
    members = [group(name, shape) for name in "abc"]
    members[0].ask(**members[0].joining)
    members[0].settle("the changelog is made")
    for member in members[1:]:
        member.ask(**member.joining)
    for _ in range(8):
        for member in members:
            member.ask(**member.owned)
    held = [[sum(len(one["partitions"]) for one in m.owned[kind]) for m in members] for kind in TASKS]
    active, standby, warmup = held
    t.keep("three members", {"active": sorted(active), "standby": sum(standby), "warmup": sum(warmup)})


@scenario("streams_group_describe", VERSIONS)
def streams_groups_among_others(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    group, consumers = StreamsGroup(t, v), Group(t, 1, "consumers")
    group.sees(topic)
    m = group("m", topology(subtopology("0", topic)))
    m.join("joins")
    c = consumers("c", topic)
    c.ask(**{"member_epoch": 0, "topic_partitions": []} | c.subscription)
    for step, fields in (("plain", {}), ("with operations", {"include_authorized_operations": True})):
        ids = [consumers.group_id, group.group_id, t.name("none"), ""]
        t.call(step, "streams_group_describe", v, {"group_ids": ids} | fields, pick=_without_hosts)
    if v:
        body = {"group_ids": [group.group_id], "include_topology_description": True}
        t.call("with the topology", "streams_group_describe", v, body, pick=_without_hosts)
    t.call("as a consumer group", "consumer_group_describe", 1, {"group_ids": [group.group_id]})
    t.call("as a share group", "share_group_describe", 1, {"group_ids": [group.group_id]})
    for version in (5, 6):
        t.call(f"as a classic group, {version}", "describe_groups", version, {"groups": [group.group_id]})
    consumer = Group(t, 1, "streams")("c", topic)
    joins = {"member_epoch": 0, "topic_partitions": []}
    consumer.beat("a consumer", **joins | consumer.subscription)
    ShareGroup(t, group="streams")("s", topic).join("a share member")
    delete = {"groups_names": [group.group_id]}
    t.call("delete while there are members", "delete_groups", 2, delete)
    m.leave("leaves")
    consumer.beat("a consumer of the empty group", **joins | consumer.subscription)
    ShareGroup(t, group="streams")("s", topic).join("a share member of the empty group")

    def ours(answer: dict[str, Any]) -> Any:
        return [one for one in answer["groups"] if one["group_id"] == group.group_id]

    t.call("listed", "list_groups", 5, {"types_filter": ["Streams"]}, pick=ours)
    t.call("delete", "delete_groups", 2, delete)


def _without_hosts(answer: dict[str, Any]) -> Any:
    for group in answer["groups"]:
        for member in group["members"]:
            member["client_host"] = "<host>"
    return answer


@scenario("offset_commit", (9, 10))
def commits_to_streams_groups(t: Talk, v: int) -> None:
    topic = t.topic("topic", 2)
    group = StreamsGroup(t, 0)
    group.sees(topic)
    m = group("m", topology(subtopology("0", topic)))
    m.join("joins")

    def commit(step: str, member_id: str, epoch: int, topic_id: str = topic.id, name: str = topic.name) -> None:
        partition = {
            "partition_index": 0,
            "committed_offset": 5,
            "committed_leader_epoch": -1,
            "committed_metadata": "note",
        }
        topics = [{"name": name, "topic_id": topic_id, "partitions": [partition]}]
        body = {"group_id": group.group_id, "generation_id_or_member_epoch": epoch, "member_id": member_id}
        t.call(step, "offset_commit", v, body | {"group_instance_id": None, "topics": topics})

    commit("of the member", "m", m.epoch)
    commit("an epoch ahead", "m", m.epoch + 1)
    commit("an epoch behind", "m", m.epoch - 1)
    commit("a stranger", "x", m.epoch)
    commit("of nobody", "", -1)
    commit("an unknown topic", "m", m.epoch, "0" * 31 + "7", t.name("none"))
    named = {"name": topic.name, "topic_id": topic.id, "partition_indexes": [0, 1]}
    for step, member_id, epoch in (("fetched", None, -1), ("by the member", "m", m.epoch), ("by a stranger", "x", 1)):
        asked = {"group_id": group.group_id, "member_id": member_id, "member_epoch": epoch, "topics": [named]}
        t.call(step, "offset_fetch", v, {"groups": [asked], "require_stable": False})
    m.leave("leaves")
    commit("of nobody once it is empty", "", -1)
