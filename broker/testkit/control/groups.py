"""Groups: their state, members and lag, as JSON and in a sentence; waits; a rebalance or a session's end on demand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from broker.coordinators.share_coordinator import delete_groups
from broker.node import Node
from broker.peers.leaders import PATIENCE_MS
from broker.testkit.control.budget import MOST, Budget
from broker.testkit.control.endpoint import (
    DEFAULT_TIMEOUT_S,
    TIMEOUT,
    Changes,
    ControlError,
    Endpoints,
    Kind,
    Parameter,
    Values,
    look_at_coordinator,
    wait_until,
)
from broker.testkit.inspection import list_groups, read_group
from broker.testkit.inspection.groups import GroupView, MemberView
from broker.testkit.inspection.partitions import PartitionLag, read_lags, sum_of, total_lag
from broker.testkit.inspection.share_and_streams import sessions_of
from coordinator.group import on_demand
from odradek.explain_rules import counted
from protocol.errors import NotCoordinator

ENDPOINTS = Endpoints()

STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
GROUP = Parameter("group", Kind.STRING, "the group's id", required=True)


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


NOT_FOUND = 404


Seen = tuple[GroupView, list[PartitionLag]]


@ENDPOINTS("GET /groups", "All groups, with state and number of members.")
async def _list(node: Node, _values: Values) -> dict[str, Any]:
    groups, unknown = await list_groups(node)
    return {"groups": [summary_json(group) for group in groups], **({"unknown": unknown} if unknown else {})}


@ENDPOINTS("GET /groups/{group}", "A group and its members; Dead if it does not exist.", GROUP)
async def _get(node: Node, values: Values) -> dict[str, Any]:
    return group_json(await read_group(node, values["group"]))


@ENDPOINTS(
    "GET /groups/{group}/lag",
    "How many records the group has not committed, by partition and in total; where it never committed, all.",
    GROUP,
)
async def _lag(node: Node, values: Values) -> dict[str, Any]:
    return lag_json(*await _see(node, values["group"]))


@ENDPOINTS("GET /groups/{group}/committed", "The committed offsets.", GROUP)
async def _committed(node: Node, values: Values) -> dict[str, Any]:
    return committed_json(await read_group(node, values["group"]))


async def _see(node: Node, group_id: str, patience_ms: float = PATIENCE_MS) -> Seen:
    group = await read_group(node, group_id)
    (lags,) = await read_lags(node, [group], patience_ms)
    return group, lags


# -- waits


@ENDPOINTS(
    "POST /groups/{group}/wait",
    "Wait until the group has all that is named; 408 if that takes too long.",
    GROUP,
    Parameter("state", Kind.STRING, "the state to wait for", choices=STATES),
    Parameter("members", Kind.INTEGER, "how many members it is to have", least=0),
    Parameter("lag", Kind.INTEGER, "the largest lag, in records, once it is Stable or Empty", least=0),
    Parameter("share_sessions", Kind.INTEGER, "how many members have a share session with this node", least=0),
    TIMEOUT,
)
async def _wait(node: Node, values: Values) -> dict[str, Any]:
    state, members, lag = values.get("state"), values.get("members"), values.get("lag")
    sessions = values.get("share_sessions")
    if state is None and members is None and lag is None and sessions is None:
        raise ControlError(
            "state, members, lag and share_sessions are missing: name what to wait for", parameter="state"
        )
    timeout_s = values.get("timeout", DEFAULT_TIMEOUT_S)

    def reached(seen: Seen) -> bool:
        group, lags = seen
        if state is not None and group.state != state:
            return False
        if not group.exists and state is None and not (members == 0 and lag is None):
            return False
        if sessions not in (None, len(sessions_of(node, group.group_id))):
            return False
        total = total_lag(group, lags)
        return members in (None, len(group.members)) and (lag is None or (total is not None and total <= lag))

    def failed(seen: Seen | None) -> str:
        wanted = [f"state {state}"] if state is not None else []
        wanted += [counted(members, "member")] if members is not None else []
        wanted += [f"a lag of at most {lag}"] if lag is not None else []
        there = unknown if seen is None else described(*seen)
        if sessions is not None:
            wanted += [counted(sessions, "share session")]
            there += f"; {counted(len(sessions_of(node, values['group'])), 'share session')} here"
        return f"waited {timeout_s:g} s for {', '.join(wanted)}: {there}"

    unknown = f"the coordinator of group {values['group']} is loading, or does not answer"
    group, lags = await wait_until(partial(_look, node, values["group"]), reached, failed, timeout_s)
    return group_json(group) | {"lag": total_lag(group, lags)}


async def _look(node: Node, group_id: str, changes: Changes) -> Seen | None:
    """See the group; None while its coordinator does not tell it.

    It is enough to listen to this node: without a commit, no lag gets smaller. That of a share group does when its
    state is written, or when it begins to read what is led here.
    """

    def is_elsewhere(seen: Seen) -> bool:
        group, lags = seen
        is_shared = group.is_share and len(node.cluster.cache.image.cluster.alive()) > 1
        return group.coordinator is not None or is_shared or any(one.unknown for one in lags)

    return await look_at_coordinator(
        node,
        changes,
        lambda: (node.coordinators.groups.runtime, node.coordinators.share.runtime, node.local.share),
        lambda: _see(node, group_id, patience_ms=0),
        is_elsewhere,
    )


# -- on demand


@ENDPOINTS("POST /groups/{group}/rebalance", "Begin a rebalance now.", GROUP)
async def _rebalance(node: Node, values: Values) -> dict[str, Any]:
    group_id = values["group"]
    await existing_here(node, group_id)
    await node.coordinators.groups.write(group_id, lambda state: on_demand.rebalance(state.groups, group_id))
    return await _get(node, values)


@ENDPOINTS(
    "POST /groups/{group}/expire",
    "End the session of a member now, or of all of them.",
    GROUP,
    Parameter("member", Kind.STRING, "a member id, client id or instance id; if missing, all members"),
)
async def _expire(node: Node, values: Values) -> dict[str, Any]:
    group_id, member = values["group"], values.get("member")
    group = await existing_here(node, group_id)
    if member is not None and not _has_member(group, member):
        raise no_such_member(group, member, "a member id, a client id or an instance id")
    expired = await node.coordinators.groups.write(
        group_id, lambda state: on_demand.expire(state.groups, group_id, member)
    )
    return {"expired": expired, **await _get(node, values)}


def no_such_member(group: GroupView, name: str, expected: str) -> ControlError:
    there = ", ".join(f"{known.member_id} (client {known.client_id})" for known in group.members) or "none"
    return ControlError(
        f"member = {name!r}: group {group.group_id} has no such member; expected {expected}; its members: {there}",
        parameter="member",
        status=NOT_FOUND,
    )


def no_such_group(group_id: str) -> ControlError:
    return ControlError(f"group = {group_id!r}: there is no such group", parameter="group", status=NOT_FOUND)


def _has_member(group: GroupView, member: str) -> bool:
    return any(member in (known.member_id, known.client_id, known.instance_id) for known in group.members)


@ENDPOINTS("DELETE /groups/{group}", "Delete a group without members, with its offsets.", GROUP)
async def _delete(node: Node, values: Values) -> None:
    group_id = values["group"]
    group = await existing_here(node, group_id)
    if group.members:
        clients = ", ".join(member.client_id or member.member_id for member in group.members)
        raise ControlError(f"group {group_id} is {group.state} and has members: {clients}", status=409)

    groups, states = node.coordinators.groups, node.local.share.states
    code = (await delete_groups(groups, states, groups.partition_for(group_id), [group_id]))[group_id]
    if code is not ErrorCode.none:
        raise ControlError(f"group {group_id} was not deleted: {code.name}", status=409)


async def group_here(node: Node, group_id: str) -> GroupView:
    """The group. Raises NotCoordinator if another broker coordinates it: that one can change it."""
    group = await read_group(node, group_id)
    if group.coordinator is not None:
        raise NotCoordinator(f"broker {group.coordinator} coordinates group {group_id}: ask that broker")
    return group


async def existing_here(node: Node, group_id: str) -> GroupView:
    group = await group_here(node, group_id)
    if not group.exists:
        raise no_such_group(group_id)
    return group
