"""Groups as JSON, and as a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.control.budget import Budget
from broker.control.topic_reader import MOST
from broker.inspection.groups import GroupView, MemberView
from broker.inspection.lag import PartitionLag, sum_of, total_lag

LETTERS, MEMBER_FIELDS = 8, 40
"""What a number or the marks around a text take in JSON, and how many times that a member's other fields do."""

FEW = 5
"""How many members or partitions a sentence names."""


def group_json(group: GroupView, budget: Budget | None = None) -> dict[str, Any]:
    """The group with its members, as many as the budget has room for; `left_out` says how many it has more."""
    budget = budget or Budget(MOST)
    members = []
    for member in group.members:
        if budget.is_spent:
            break
        members.append(_member(group, member))
        budget.keep(_size(member))
    left_out = len(group.members) - len(members)
    return {
        "group": group.group_id,
        "state": group.state,
        "protocol": group.protocol or None,
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "assignor": group.assignor,
        "members": members,
        **({"left_out": left_out} if left_out else {}),
    }


def _size(member: MemberView) -> int:
    """The characters of a member as JSON, about; its client decides how many topics it names."""
    assigned = sum(len(topic) + LETTERS * len(indexes) for topic, indexes in member.assignment.items())
    return LETTERS * MEMBER_FIELDS + sum(len(topic) + LETTERS for topic in member.topics or ()) + assigned


def _member(group: GroupView, member: MemberView) -> dict[str, Any]:
    left_ms = member.session_left_ms
    return {
        "id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "protocol": member.protocol,
        "leader": member.member_id == group.leader,
        "topics": None if member.topics is None else sorted(member.topics),
        "assignment": {topic: list(indexes) for topic, indexes in member.assignment.items()},
        "waits_for": member.waits_for,
        "session_ends_in": None if left_ms is None else round(left_ms / 1000, 3),
    }


def summary_json(group: GroupView) -> dict[str, Any]:
    """A line of the list of groups."""
    return {
        "group": group.group_id,
        "state": group.state,
        "protocol": group.protocol or None,
        "members": len(group.members),
    }


def lag_json(group: GroupView, lags: Sequence[PartitionLag]) -> dict[str, Any]:
    """The lag by partition, and in total; null where it is not known, with `unknown`, which says why."""
    return {
        "group": group.group_id,
        "total": sum_of(lags),
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "committed" if one.shared is None else "start_offset": one.begin,
                "end": None if one.unknown else one.end,
                "lag": one.lag,
                **({"unknown": why} if (why := _why_unknown(one)) else {}),
            }
            for one in lags
        ],
    }


def _why_unknown(one: PartitionLag) -> str:
    return one.unknown if one.is_begun else "the share group has not begun to read it"


def committed_json(group: GroupView) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "partitions": [
            {
                "topic": topic,
                "partition": index,
                "offset": offset.value.offset,
                "leader_epoch": offset.value.leader_epoch,
                "metadata": offset.value.metadata,
                "in_transaction": (topic, index) in group.in_transactions,
            }
            for (topic, index), offset in group.offsets.items()
        ],
    }


def described(group: GroupView, lags: Sequence[PartitionLag]) -> str:
    """The group in one sentence, for the end of a wait in vain."""
    if not group.exists:
        return f"group {group.group_id} does not exist"
    members = ", ".join(_named(member) for member in group.members[:FEW])
    more = "" if len(group.members) <= FEW else f" and {len(group.members) - FEW} more"
    who = f" ({members}{more})" if members else ""
    text = f"group {group.group_id} is {group.state} with {counted(len(group.members), 'member')}{who}"
    total = total_lag(group, lags)
    if not lags:
        return f"{text}, with no partitions"
    behind = ", ".join(f"{lag.name}: {lag.lag}" for lag in lags if lag.lag)
    unknown = ", ".join(f"{lag.name}: {why}" for lag in lags if (why := _why_unknown(lag)))
    if unknown:
        return f"{text}; its lag is not known ({unknown})"
    if total is None:
        return f"{text}; its lag counts once it is Stable or Empty"
    return f"{text}, lag {total}" + (f" ({behind})" if behind else "")


def _named(member: MemberView) -> str:
    waits = f", waits for the answer to its {member.waits_for}" if member.waits_for else ""
    return f"{member.client_id or member.member_id}{waits}{', expected' if member.is_late else ''}"


def counted(number: int, what: str) -> str:
    """`1 member`, `2 members`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
