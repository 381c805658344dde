"""Groups: their state, members and lag; waits; a rebalance, the end of a session or other offsets on demand."""

from __future__ import annotations

from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.control.group_json import committed_json, counted, described, group_json, lag_json, summary_json
from broker.control.offset_resets import resolve, start_share_group
from broker.control.waiting import DEFAULT_TIMEOUT_S, TIMEOUT, Changes, wait_until
from broker.coordinators.share_coordinator import delete_groups
from broker.inspection.cluster import list_groups, read_group
from broker.inspection.groups import GroupView
from broker.inspection.lag import PartitionLag, read_lags, total_lag
from broker.inspection.share_groups import is_share, sessions_of
from broker.node import Node
from broker.peers.leaders import PATIENCE_MS, RETRY_MS, NoAnswerError
from coordinator.group import on_demand
from coordinator.group.offsets.offsets import Commit, OffsetToCommit
from protocol.errors import CoordinatorLoadInProgress, NotCoordinator

STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Assigning",
    "Reconciling",
    "Dead",
)
NOT_FOUND = 404

GROUP = Parameter("group", Kind.STRING, "the group's id", required=True)

Seen = tuple[GroupView, list[PartitionLag]]


async def _list(node: Node, _values: Values) -> dict[str, Any]:
    groups, unknown = await list_groups(node)
    return {"groups": [summary_json(group) for group in groups], **({"unknown": unknown} if unknown else {})}


async def _get(node: Node, values: Values) -> dict[str, Any]:
    return group_json(await read_group(node, values["group"]))


async def _lag(node: Node, values: Values) -> dict[str, Any]:
    return lag_json(*await _see(node, values["group"]))


async def _committed(node: Node, values: Values) -> dict[str, Any]:
    return committed_json(await read_group(node, values["group"]))


async def _see(node: Node, group_id: str, patience_ms: float = PATIENCE_MS) -> Seen:
    group = await read_group(node, group_id)
    (lags,) = await read_lags(node, [group], patience_ms)
    return group, lags


# -- waits


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
    async with node.changing:  # a snapshot that is restored brings another coordinator
        for source in (node.coordinators.groups.runtime, node.coordinators.share.runtime, node.local.share):
            changes.follow(source, source.listen)
        try:
            seen = await _see(node, group_id, patience_ms=0)
        except (CoordinatorLoadInProgress, NoAnswerError):
            changes.look_again(node.clock.machine, RETRY_MS)
            return None
    group, lags = seen
    is_elsewhere = group.coordinator is not None or (
        is_share(group) and len(node.cluster.cache.image.cluster.alive()) > 1
    )
    if is_elsewhere or any(one.unknown for one in lags):
        changes.look_again(node.clock.machine, RETRY_MS)  # nobody tells this node of what changes elsewhere
    return seen


# -- on demand


async def _rebalance(node: Node, values: Values) -> dict[str, Any]:
    group_id = values["group"]
    await _existing_here(node, group_id)
    await node.coordinators.groups.write(group_id, lambda state: on_demand.rebalance(state.groups, group_id))
    return await _get(node, values)


async def _expire(node: Node, values: Values) -> dict[str, Any]:
    group_id, member = values["group"], values.get("member")
    group = await _existing_here(node, group_id)
    if member is not None and not _has_member(group, member):
        there = ", ".join(f"{known.member_id} (client {known.client_id})" for known in group.members) or "none"
        raise ControlError(
            f"member = {member!r}: group {group_id} has no such member; expected a member id, a client id or an "
            f"instance id; its members: {there}",
            parameter="member",
            status=NOT_FOUND,
        )
    expired = await node.coordinators.groups.write(
        group_id, lambda state: on_demand.expire(state.groups, group_id, member)
    )
    return {"expired": expired, **await _get(node, values)}


def _has_member(group: GroupView, member: str) -> bool:
    return any(member in (known.member_id, known.client_id, known.instance_id) for known in group.members)


async def _reset(node: Node, values: Values) -> dict[str, Any]:
    """Commit as an administrator does: only where no member is active."""
    coordinator, group_id = node.coordinators.groups, values["group"]
    group = await _group_here(node, group_id)
    if group.members:
        clients = ", ".join(member.client_id or member.member_id for member in group.members)
        raise ControlError(
            f"group {group_id} is {group.state}: offsets are reset while it has no members; stop {clients}, or expire "
            "their sessions",
            status=409,
        )
    offsets = await resolve(node, group, values["to"], values.get("topic"), values.get("partitions"))
    await coordinator.ensure_topic()
    if is_share(group):
        return await start_share_group(node, group_id, offsets)
    commit = Commit(group_id, [OffsetToCommit(topic, index, offset, -1, "") for (topic, index), offset in offsets])
    codes = await coordinator.write(group_id, lambda state: state.offsets.commit(commit))
    refused = [code for code in codes if code is not ErrorCode.none]
    if refused:
        raise ControlError(f"the offsets were refused: {refused[0].name}", status=409)
    return committed_json(await read_group(node, group_id))


async def _delete(node: Node, values: Values) -> None:
    group_id = values["group"]
    group = await _existing_here(node, group_id)
    if group.members:
        clients = ", ".join(member.client_id or member.member_id for member in group.members)
        raise ControlError(f"group {group_id} is {group.state} and has members: {clients}", status=409)

    groups, states = node.coordinators.groups, node.local.share.states
    code = (await delete_groups(groups, states, groups.partition_for(group_id), [group_id]))[group_id]
    if code is not ErrorCode.none:
        raise ControlError(f"group {group_id} was not deleted: {code.name}", status=409)


async def _group_here(node: Node, group_id: str) -> GroupView:
    """The group. Raises NotCoordinator if another broker coordinates it: that one can change it."""
    group = await read_group(node, group_id)
    if group.coordinator is not None:
        raise NotCoordinator(f"broker {group.coordinator} coordinates group {group_id}: ask that broker")
    return group


async def _existing_here(node: Node, group_id: str) -> GroupView:
    group = await _group_here(node, group_id)
    if not group.exists:
        raise ControlError(f"group = {group_id!r}: there is no such group", parameter="group", status=NOT_FOUND)
    return group


ENDPOINTS = (
    Endpoint("GET", "/groups", "All groups, with state and number of members.", _list),
    Endpoint("GET", "/groups/{group}", "A group and its members; Dead if it does not exist.", _get, (GROUP,)),
    Endpoint(
        "GET",
        "/groups/{group}/lag",
        "How many records the group has not committed, by partition and in total; where it never committed, all.",
        _lag,
        (GROUP,),
    ),
    Endpoint("GET", "/groups/{group}/committed", "The committed offsets.", _committed, (GROUP,)),
    Endpoint(
        "POST",
        "/groups/{group}/wait",
        "Wait until the group has all that is named; 408 if that takes too long.",
        _wait,
        (
            GROUP,
            Parameter("state", Kind.STRING, "the state to wait for", choices=STATES),
            Parameter("members", Kind.INTEGER, "how many members it is to have", least=0),
            Parameter("lag", Kind.INTEGER, "the largest lag, in records, once it is Stable or Empty", least=0),
            Parameter("share_sessions", Kind.INTEGER, "how many members have a share session with this node", least=0),
            TIMEOUT,
        ),
    ),
    Endpoint("POST", "/groups/{group}/rebalance", "Begin a rebalance now.", _rebalance, (GROUP,)),
    Endpoint(
        "POST",
        "/groups/{group}/expire",
        "End the session of a member now, or of all of them.",
        _expire,
        (GROUP, Parameter("member", Kind.STRING, "a member id, client id or instance id; if missing, all members")),
    ),
    Endpoint(
        "POST",
        "/groups/{group}/reset_offsets",
        "Commit other offsets for a group without members; a share group starts at them.",
        _reset,
        (
            GROUP,
            Parameter(
                "to",
                Kind.STRING_OR_INTEGER,
                "earliest, latest, an offset, or a time such as 2026-11-27T04:00:00Z",
                required=True,
            ),
            Parameter("topic", Kind.STRING, "a topic; if missing, those to which the group has committed"),
            Parameter("partitions", Kind.ARRAY, "partitions of the topic; if missing, all"),
        ),
    ),
    Endpoint("DELETE", "/groups/{group}", "Delete a group without members, with its offsets.", _delete, (GROUP,)),
)
