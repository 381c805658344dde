"""What each user asks about share groups and streams groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.authorization.questions import question
from tests.conformance.authorization.world import NAMES, World

GROUPS = ("g-open", "g-closed", "p-g")
STATES: dict[str, dict[str, int | list[int]]] = {
    "initialize": {"state_epoch": 1, "start_offset": 0},
    "read": {"leader_epoch": 0},
    "write": {"state_epoch": 1, "leader_epoch": 0, "start_offset": 0, "state_batches": []},
    "delete": {},
}


def in_session(group_id: str, epoch: int, **of_each: Any) -> Callable[[World, str], dict[str, Any]]:
    """A request of a share session, to every topic; `of_each` are fields of its partitions."""

    def body(world: World, user: str) -> dict[str, Any]:
        ids = [world.ids[name] for name in NAMES]
        partitions = [{"partition_index": 0, "acknowledgement_batches": [], **of_each}]
        return {
            "group_id": group_id,
            "member_id": f"member of {user}",
            "share_session_epoch": epoch,
            "topics": [{"topic_id": topic_id, "partitions": partitions} for topic_id in ids],
        }

    return body


def of_states(**fields: Any) -> Callable[[World, str], dict[str, Any]]:
    def body(world: World, _: str) -> dict[str, Any]:
        partitions = [{"partition": 0, **fields}]
        return {"group_id": "g-none", "topics": [{"topic_id": world.ids["t-open"], "partitions": partitions}]}

    return body


def streams_join(group_id: str, topic: str) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "member_id": "no member",
        "member_epoch": 0,
        "rebalance_timeout": 1000,
        "process_id": "p",
        "topology": {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": [topic]}]},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }


ACKNOWLEDGED = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]

for _group in GROUPS:
    for _topic in ("t-open", "t-closed"):
        _body = {"group_id": _group, "member_id": "m", "member_epoch": 1, "subscribed_topic_names": [_topic]}
        question(f"share_group_heartbeat {_group} {_topic}", "share_group_heartbeat", 1, _body)
    _body = {"group_id": _group, "member_id": "no member", "member_epoch": 1}
    question(f"streams_group_heartbeat {_group}", "streams_group_heartbeat", 0, _body)
    question(
        f"streams_group_topology_description_update {_group}",
        "streams_group_topology_description_update",
        0,
        {
            "group_id": _group,
            "member_id": "no member",
            "topology_epoch": 0,
            "topology_description": {"subtopologies": [], "global_stores": []},
        },
    )
    question(f"share_fetch {_group}", "share_fetch", 2, in_session(_group, 0))
    question(
        f"share_acknowledge {_group}",
        "share_acknowledge",
        2,
        in_session(_group, 1, acknowledgement_batches=ACKNOWLEDGED),
    )
for _topic in ("t-open", "t-closed"):
    question(f"streams_group_heartbeat {_topic}", "streams_group_heartbeat", 0, streams_join("p-streams", _topic))
for _kind in ("share", "streams"):
    question(
        f"{_kind}_group_describe",
        f"{_kind}_group_describe",
        1 if _kind == "share" else 0,
        {"group_ids": [*GROUPS, "g-none"], "include_authorized_operations": True},
    )
question(
    "describe_share_group_offsets",
    "describe_share_group_offsets",
    1,
    {
        "groups": [
            {"group_id": group, "topics": [{"topic_name": name, "partitions": [0]} for name in NAMES]}
            for group in GROUPS
        ]
    },
)
for _group in GROUPS:
    question(
        f"alter_share_group_offsets {_group}",
        "alter_share_group_offsets",
        0,
        {
            "group_id": _group,
            "topics": [
                {"topic_name": name, "partitions": [{"partition_index": 0, "start_offset": 0}]} for name in NAMES
            ],
        },
    )
    question(
        f"delete_share_group_offsets {_group}",
        "delete_share_group_offsets",
        0,
        {"group_id": _group, "topics": [{"topic_name": name} for name in NAMES]},
    )
for _what, _fields in STATES.items():
    question(f"{_what}_share_group_state", f"{_what}_share_group_state", 0, of_states(**_fields))
question("read_share_group_state_summary", "read_share_group_state_summary", 0, of_states(leader_epoch=0))
