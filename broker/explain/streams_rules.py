"""Rules about a streams group: is its topology ready, what are its members told, and how far is the state of tasks?"""

from __future__ import annotations

from broker.explain.finding import Finding, Findings, Severity, counted, listed
from broker.explain.situations import GroupSituation
from coordinator.group.streams.topology import Status

ADVICE = {
    Status.MISSING_SOURCE_TOPICS: "Create them: the group goes on by itself. The broker makes internal topics only.",
    Status.INCORRECTLY_PARTITIONED_TOPICS: "Topics that are joined need as many partitions as each other; delete an "
    "internal topic that was made for another number of partitions.",
    Status.MISSING_INTERNAL_TOPICS: "The broker makes them; its log says why it could not.",
}
"""What to do about a topology that is not ready."""


def topology_is_not_ready(it: GroupSituation) -> Findings:
    problem = None if it.streams is None else it.streams.problem
    if problem is not None and it.group.members:
        yield Finding(
            Severity.PROBLEM,
            "topology_is_not_ready",
            f"group {it.group.group_id} has no tasks: members are told {problem.status.name} "
            f"(status {problem.status.value}): {problem.detail}",
            ADVICE.get(problem.status, ""),
        )


def application_shuts_down(it: GroupSituation) -> Findings:
    if it.streams is not None and it.streams.shutdown_by is not None:
        yield Finding(
            Severity.PROBLEM,
            "application_shuts_down",
            f"member {it.streams.shutdown_by} of group {it.group.group_id} has asked all to end: members are told "
            f"SHUTDOWN_APPLICATION (status {Status.SHUTDOWN_APPLICATION.value}) until the group is empty",
            "Look at the error that its uncaught exception handler got, and start the application again once all "
            "instances have ended.",
        )


def topology_is_stale(it: GroupSituation) -> Findings:
    if it.streams is not None and it.streams.stale:
        names = listed(f"{member_id} (epoch {epoch})" for member_id, epoch in sorted(it.streams.stale.items()))
        yield Finding(
            Severity.WARNING,
            "topology_is_stale",
            f"the topology of {names} is older than the group's, which has epoch {it.streams.topology_epoch}: they are "
            f"told STALE_TOPOLOGY (status {Status.STALE_TOPOLOGY.value})",
            "Update these instances.",
        )


def client_tags_are_missing(it: GroupSituation) -> Findings:
    if it.streams is None:
        return
    for member_id, tags in sorted(it.streams.untagged.items()):
        yield Finding(
            Severity.WARNING,
            "client_tags_are_missing",
            f"member {member_id} has no client tags {listed(tags)}, which streams.rack.aware.assignment.tags names: it "
            f"is told MISSING_CLIENT_TAGS (status {Status.MISSING_CLIENT_TAGS.value})",
            "Set client.tag.<key> in its Streams configuration.",
        )


def assignment_is_delayed(it: GroupSituation) -> Findings:
    if it.streams is not None and it.streams.is_delayed:
        yield Finding(
            Severity.WARNING,
            "assignment_is_delayed",
            f"group {it.group.group_id} has just begun and waits for more members: they are told ASSIGNMENT_DELAYED "
            f"(status {Status.ASSIGNMENT_DELAYED.value})",
            "Set group.streams.initial.rebalance.delay.ms to 0 for tests.",
        )


def state_is_behind(it: GroupSituation) -> Findings:
    """Tasks whose state is not restored yet; a warm-up becomes active once it is near enough."""
    if it.streams is None:
        return
    for task in it.streams.tasks:
        behind = task.end - task.offset
        if behind <= 0:
            continue
        limit = f", and becomes active at {it.streams.acceptable_lag}" if task.role == "warm-up" else ""
        yield Finding(
            Severity.INFO,
            "state_is_behind",
            f"{task.role} task {task.name} of member {task.member_id} restores its state: it is "
            f"{counted(behind, 'record')} behind the end of its changelogs{limit}",
        )


RULES = (
    topology_is_not_ready,
    application_shuts_down,
    topology_is_stale,
    client_tags_are_missing,
    assignment_is_delayed,
    state_is_behind,
)
