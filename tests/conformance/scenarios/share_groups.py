"""Share groups of a broker whose `share.version` is 0, and changes of the metadata's voters with `kraft.version` 0."""

from __future__ import annotations

from functools import partial, update_wrapper
from typing import Any

from tests.conformance.runner import Talk, scenario

TOPIC, OTHER = f"{5:032x}", f"{0x3469D0369D0369CD0369D0369B:032x}"
NO_TOPIC = f"{0:032x}"


@scenario("share_group_heartbeat", (1,))
def share_heartbeats(t: Talk, v: int) -> None:
    for epoch in (0, 1, -1):
        body = {"group_id": t.name("g"), "member_id": "m", "member_epoch": epoch, "subscribed_topic_names": ["a"]}
        t.call(f"epoch {epoch}", "share_group_heartbeat", v, body)
    t.call("empty", "share_group_heartbeat", v, {})


@scenario("share_group_describe", (1,))
def described_share_groups(t: Talk, v: int) -> None:
    for asked in (False, True):
        groups = [t.name("g"), t.name("h"), t.name("g"), ""]
        body = {"group_ids": groups, "include_authorized_operations": asked}
        t.call(f"operations {asked}", "share_group_describe", v, body)
    t.call("none", "share_group_describe", v, {"group_ids": []})


@scenario("share_fetch", (1,))
def share_fetches(t: Talk, v: int) -> None:
    partition = {"partition_index": 0, "acknowledgement_batches": []}
    for epoch in (0, 1, -1):
        body = {"group_id": t.name("g"), "member_id": "m", "share_session_epoch": epoch}
        t.call(f"epoch {epoch}", "share_fetch", v, body)
        t.call(f"epoch {epoch}, a topic", "share_fetch", v, body | {"topics": [_topic(TOPIC, partition)]})


@scenario("share_acknowledge", (1,))
def share_acknowledgements(t: Talk, v: int) -> None:
    partition = {"partition_index": 0, "acknowledgement_batches": []}
    for epoch in (0, 1, -1):
        body = {"group_id": t.name("g"), "member_id": "m", "share_session_epoch": epoch}
        t.call(f"epoch {epoch}", "share_acknowledge", v, body)
        t.call(f"epoch {epoch}, a topic", "share_acknowledge", v, body | {"topics": [_topic(TOPIC, partition)]})


def _topic(topic_id: str, *partitions: dict[str, Any]) -> dict[str, Any]:
    return {"topic_id": topic_id, "partitions": list(partitions)}


@scenario("describe_share_group_offsets")
def share_offsets(t: Talk, v: int) -> None:
    def ask(step: str, *groups: dict[str, Any]) -> None:
        t.call(step, "describe_share_group_offsets", v, {"groups": list(groups)})

    g, h = t.name("g"), t.name("h")
    ask("all topics", {"group_id": g, "topics": None})
    ask("a topic", {"group_id": g, "topics": [{"topic_name": t.name("a"), "partitions": [0]}]})
    ask("twice", {"group_id": g, "topics": None}, {"group_id": h, "topics": []}, {"group_id": g, "topics": None})
    ask("none")


@scenario("alter_share_group_offsets")
def altered_share_offsets(t: Talk, v: int) -> None:
    partition = {"partition_index": 0, "start_offset": 0}
    topics = [{"topic_name": t.topic("a").name, "partitions": [partition]}]
    for group in (t.name("g"), ""):
        t.call(f"of {bool(group)}", "alter_share_group_offsets", v, {"group_id": group, "topics": topics})
    t.call("none", "alter_share_group_offsets", v, {"group_id": t.name("g"), "topics": []})


@scenario("delete_share_group_offsets")
def deleted_share_offsets(t: Talk, v: int) -> None:
    topics = [{"topic_name": t.topic("a").name}]
    for group in (t.name("g"), ""):
        t.call(f"of {bool(group)}", "delete_share_group_offsets", v, {"group_id": group, "topics": topics})
    t.call("none", "delete_share_group_offsets", v, {"group_id": t.name("g"), "topics": []})


def share_states(t: Talk, v: int, *, api: str) -> None:
    def ask(step: str, *topics: tuple[str, list[int]], group: str = "g") -> None:
        named = [_topic(topic, *({"partition": index} for index in indexes)) for topic, indexes in topics]
        t.call(step, api, v, {"group_id": group and t.name(group), "topics": named})

    numbered = {n: f"{n * 0x123456789ABCDEF0123456789:032x}" for n in range(1, 7)}
    for topic_id, symbol in {
        TOPIC: "topic",
        OTHER: "other",
        **{one: f"topic {n}" for n, one in numbered.items()},
    }.items():
        t.normalise.name_id(topic_id, symbol)
    ask("one", (TOPIC, [0]))
    ask("no topic", (NO_TOPIC, [0]))
    ask("twice", (TOPIC, [0, 0, 1]), (TOPIC, [2]))
    ask("partitions", (TOPIC, [17, 3, -1, 0, 2147483647, 40]))
    ask("topics", (TOPIC, [0]), (OTHER, [0]), *((topic_id, [n]) for n, topic_id in numbered.items()))
    ask("without partitions", (TOPIC, []))
    ask("one without partitions", (TOPIC, []), (OTHER, [3]))
    ask("the second without partitions", (OTHER, [3]), (TOPIC, []))
    ask("none")
    ask("no group", (TOPIC, [0]), group="")


for _api in (
    "initialize_share_group_state",
    "read_share_group_state",
    "write_share_group_state",
    "delete_share_group_state",
    "read_share_group_state_summary",
):
    _play = partial(share_states, api=_api)
    scenario(_api)(update_wrapper(_play, share_states))


@scenario("add_raft_voter")
def added_voters(t: Talk, v: int) -> None:
    cluster = _cluster(t)
    controller = {"name": "CONTROLLER", "host": "voter.example", "port": 19093}
    plain = {"voter_id": 5, "voter_directory_id": TOPIC, "listeners": [controller], "timeout": 1000}

    def add(step: str, **fields: Any) -> None:
        t.call(step, "add_raft_voter", v, plain | {"cluster_id": cluster} | fields)

    add("a voter")
    add("any cluster", cluster_id=None)
    add("another cluster", cluster_id="other")
    add("another cluster, no voter", cluster_id="", voter_id=-1)
    add("voter -1", voter_id=-1)
    add("voter -1, no listeners", voter_id=-1, listeners=[])
    add("no directory", voter_directory_id=NO_TOPIC)
    add("the one that is", voter_id=1)
    add("no listeners", listeners=[])
    add("another listener", listeners=[controller | {"name": "X"}])
    add("listener twice", listeners=[controller, controller])
    add("in small letters", listeners=[controller | {"name": "controller"}])
    add(
        "others, in small letters",
        listeners=[controller | {"name": name} for name in ("zeta", "Abc", "x", "eins", "zwei")],
    )


@scenario("remove_raft_voter")
def removed_voters(t: Talk, v: int) -> None:
    cluster = _cluster(t)

    def remove(step: str, **fields: Any) -> None:
        body = {"cluster_id": cluster, "voter_id": 5, "voter_directory_id": TOPIC} | fields
        t.call(step, "remove_raft_voter", v, body)

    remove("a voter")
    remove("any cluster", cluster_id=None)
    remove("another cluster", cluster_id="other")
    remove("voter -1", voter_id=-1)
    remove("no directory", voter_directory_id=NO_TOPIC)
    remove("voter -1 without directory", voter_id=-1, voter_directory_id=NO_TOPIC)
    remove("the one that is, another directory", voter_id=1)


def _cluster(t: Talk) -> str:
    seen: dict[str, Any] = {}
    t.call("cluster", "describe_cluster", 0, {}, pick=seen.update)
    return str(seen["cluster_id"])


@scenario("unregister_broker")
def unregistered_brokers(t: Talk, v: int) -> None:
    for broker in (1000, 0, -1, 2147483647):
        t.call(f"broker {broker}", "unregister_broker", v, {"broker_id": broker})


@scenario("unregister_controller")
def unregistered_controllers(t: Talk, v: int) -> None:
    for controller in (1, 1000, 0, -1, 2147483647):
        t.call(f"controller {controller}", "unregister_controller", v, {"controller_id": controller})
