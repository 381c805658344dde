"""What members of streams groups (KIP-1071) say in `fuzz`: a topology, the tasks that they have, and whether they go.

Which of several members with equal claims gets a task goes by the order of Kafka's hash maps, so answers are compared
without the numbers of the tasks' partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conformance.group_configs import configure_group
from tests.conformance.runner import Talk, Topic
from tests.conformance.streams_members import TASKS, StreamsGroup
from tools.fuzz.symbols import Held, Named
from tools.fuzz.wild import Wild

HEARTBEAT, DESCRIBE, DESCRIPTION = (
    "streams_group_heartbeat", "streams_group_describe", "streams_group_topology_description_update",
)  # fmt: skip
APIS = (HEARTBEAT, DESCRIBE, DESCRIPTION)
TELL_OF_TASKS = (HEARTBEAT, DESCRIBE)
GROUPS = ("w1", "w2")
PROCESSES = {"m1": "p1", "m2": "p1", "m3": "p2", "m4": "p3", "m5": "p3"}
STATIC = {"m4": "inst", "m5": "inst"}
"""Two members that are the same instance."""
MEMBERS = ("m1", "m1", "m1", "m2", "m2", "m3", "m4", "m5")
SAYS = {
    "beat": 5,
    "own": 8,
    "full": 2,
    "before": 2,
    "leave": 2,
    "away": 1,
    "join": 1,
    "topology": 1,
    "end": 1,
    "lag": 2,
}
SOFT = {"shutdown_application": False, "task_offsets": None, "task_end_offsets": None}
"""Of what is in no log: nothing."""
INTERNAL = ("store-changelog", "keyed-repartition")
"""Topics that the broker makes for topologies."""
MISSING_INTERNAL_TOPICS = 3
CONFIGS = {
    "streams.num.standby.replicas": ("0", "1", "2", "3"),
    "streams.session.timeout.ms": ("50000", "1"),
    "streams.heartbeat.interval.ms": ("5000", "1"),
    "streams.task.offset.interval.ms": ("60000", "1"),
    "streams.initial.rebalance.delay.ms": ("0", "-1"),
    "streams.num.warmup.replicas": ("2", "0"),
}


def prepare(t: Talk, topics: Mapping[str, Topic]) -> None:
    """Let groups begin at once, and the coordinator know the topics."""
    for name in GROUPS:
        group = StreamsGroup(t, 1, name)
        group.sees(*topics.values())
    for name in GROUPS:
        configure_group(t, t.prefix + name, {"streams_initial_rebalance_delay_ms": "0"})
    for name in INTERNAL:
        t.name(name)


def heartbeat(draw: Wild, group: str, held: Mapping[tuple[str, str], Any], drawn: dict[str, Any]) -> dict[str, Any]:
    """What a member would say next; now and then a field is what was drawn for it."""
    member = draw.one(*MEMBERS)
    slot = f"{group}/{member}"
    has_joined = ("streams epoch", slot) in held
    says = draw.rng.choices(tuple(SAYS), tuple(SAYS.values()))[0] if has_joined else "join"
    told: dict[str, Any] = dict.fromkeys(drawn) | {
        "group_id": Named(group),
        "member_id": member,
        "instance_id": STATIC.get(member),
        "member_epoch": Held("streams epoch", slot, 0),
        "endpoint_information_epoch": Held("endpoints epoch", slot, -1),
        "rebalance_timeout": -1,
        "shutdown_application": draw.chance(0.01),
    }
    owned = {kind: Held(kind, slot, []) for kind in TASKS}
    match says:
        case "join":
            told |= {"member_epoch": 0, **_whole(draw, group, member), **{kind: [] for kind in TASKS}} | SOFT
            drawn = drawn | SOFT  # Kafka forgets what comes with the heartbeat that makes the group
        case "own":
            told |= owned
        case "full":
            told |= {**_whole(draw, group, member), **owned}
        case "topology":
            told |= {"topology": topology(draw), **owned}
        case "before":
            told |= {"member_epoch": Held("streams epoch", slot, 0, draw.one(-1, -1, -2, 1))}
            told |= draw.one({}, owned, {kind: [] for kind in TASKS})
        case "leave":
            told["member_epoch"] = -1
        case "away":
            told["member_epoch"] = -2 if member in STATIC else -1
        case "lag":
            offset = {"subtopology_id": "0", "partition": 0, "offset": draw.one(0, 3, 4, 100_000)}
            told |= {"task_offsets": [offset], "task_end_offsets": [offset | {"offset": draw.one(4, 100_000)}]}
    return draw.mixed(told, drawn)


def _whole(draw: Wild, group: str, member: str) -> dict[str, Any]:
    """What a member says of itself when it joins.

    Members of the first group have no endpoints: with one, Kafka fails while the topology is not ready.
    """
    endpoints = [None, {"host": "host-" + PROCESSES[member], "port": 9000}] if group != GROUPS[0] else [None]
    return {
        "topology": topology(draw),
        "rebalance_timeout": 60_000,
        "process_id": PROCESSES[member],
        "rack_id": draw.one(None, None, "rack"),
        "client_tags": draw.one([], [], [{"key": "zone", "value": draw.one("x", "y")}]),
        "user_endpoint": draw.one(*endpoints),
    }


def topology(draw: Wild) -> dict[str, Any]:
    """Mostly the same one; else one that lacks a topic, that fits no other, or that a later program would have."""
    simple = {"subtopology_id": "0", "source_topics": [Named("a")]}
    stored = simple | {"state_changelog_topics": [_internal(INTERNAL[0])]}
    second = {"subtopology_id": "1", "source_topics": [Named("b")]}
    keyed = {"subtopology_id": "1", "repartition_source_topics": [_internal(INTERNAL[1], draw.one(2, 2, 0))]}
    joined = {"source_topics": [Named("a"), Named("b")], "copartition_groups": [{"source_topics": [0, 1]}]}
    subtopologies = draw.rng.choices(
        (
            [simple],
            [stored, second],
            [simple | {"repartition_sink_topics": [Named(INTERNAL[1])]}, keyed],
            [simple, {"subtopology_id": "1", "source_topics": [Named("missing")]}],
            [simple | joined],
            [{"subtopology_id": "0", "source_topic_regex": [Named(draw.one("a", "[ab]", "("))]}],
            [simple, simple],
            [],
        ),
        (10, 5, 5, 2, 2, 1, 1, 1),
    )[0]
    return {"epoch": draw.rng.choices((0, 1, 2), (8, 2, 1))[0], "subtopologies": subtopologies}


def _internal(name: str, partitions: int = 0) -> dict[str, Any]:
    return {"name": Named(name), "partitions": partitions, "replication_factor": 1, "topic_configs": []}


def description(draw: Wild, group: str, drawn: dict[str, Any]) -> dict[str, Any]:
    """A StreamsGroupTopologyDescriptionUpdate of a small topology."""
    source = {"name": "source", "node_type": 0, "source_topics": [Named("a")], "successors": ["sink"]}
    sink = {"name": "sink", "node_type": 2, "sink_topic": Named("b")}
    subtopology = {"subtopology_id": "0", "nodes": [source, sink]}
    told = {
        "group_id": Named(group),
        "member_id": draw.one(*MEMBERS),
        "topology_epoch": draw.one(0, 0, 0, 1),
        "topology_description": {
            "subtopologies": [subtopology],
            "global_stores": [],
        },
    }
    return draw.mixed(told, drawn)


def learn(held: dict[tuple[str, str], Any], slot: str, answer: Mapping[str, Any]) -> None:
    """Note in `held` what the member at `slot` was given."""
    error = str(answer.get("error_code", "")).split(" ")[0]
    if error == "0" and answer["member_epoch"] >= 0:
        held["streams epoch", slot] = answer["member_epoch"]
        held["endpoints epoch", slot] = answer["endpoint_information_epoch"]
        held.update({(kind, slot): answer[kind] for kind in TASKS if answer[kind] is not None})
    elif error in ("0", "25", "110", "69"):
        held.pop(("streams epoch", slot), None)


def waits(answer: Any) -> bool:
    """Whether the broker has begun to make topics that the member needs."""
    statuses = answer.get("status", ()) if isinstance(answer, dict) else ()
    return any(status["status_code"] == MISSING_INTERNAL_TOPICS for status in statuses)


def whole_state() -> list[tuple[str, int, dict[str, Any]]]:
    """Requests that tell what a conversation has left behind."""
    return [(DESCRIBE, 1, {"group_ids": [Named(group) for group in GROUPS], "include_topology_description": True})]
