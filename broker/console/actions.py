"""What the console's forms change: each is an endpoint of the control interface, with the right that it takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import NamedTuple

from broker.console.ask import Ask
from broker.console.formats import link
from broker.control.endpoint import ControlError, Endpoint
from broker.control.endpoints import ENDPOINTS
from broker.inspection.cluster import read_group
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType


class Action(NamedTuple):
    """`named` is the parameter with the name of what is changed, None for the cluster.

    `back` is the page that is shown then, with that name in its parameter `as_`; `done` says what was done.
    """

    method: str
    path: str
    operation: AclOperation
    resource_type: ResourceType
    named: str | None
    back: str
    as_: str | None
    done: str
    needs_kit: bool = False


CREATES_ANY = (AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)

ACTIONS: Mapping[str, Action] = {
    "create-topic": Action(
        "POST", "/topics", AclOperation.CREATE, ResourceType.TOPIC, "topic", "topic", "name", "The topic was created."
    ),
    "delete-topic": Action(
        "DELETE", "/topics/{topic}", AclOperation.DELETE, ResourceType.TOPIC, "topic", "topics", None, "Deleted."
    ),
    "truncate-topic": Action(
        "POST",
        "/topics/{topic}/truncate",
        AclOperation.DELETE,
        ResourceType.TOPIC,
        "topic",
        "topic",
        "name",
        "The records were deleted.",
    ),
    "reset-offsets": Action(
        "POST",
        "/groups/{group}/reset_offsets",
        AclOperation.READ,
        ResourceType.GROUP,
        "group",
        "group",
        "id",
        "The group has other offsets now.",
    ),
    "delete-group": Action(
        "DELETE", "/groups/{group}", AclOperation.DELETE, ResourceType.GROUP, "group", "groups", None, "Deleted."
    ),
    "abort-transaction": Action(
        "POST",
        "/transactions/{transactional_id}/abort",
        AclOperation.WRITE,
        ResourceType.TRANSACTIONAL_ID,
        "transactional_id",
        "transaction",
        "id",
        "The transaction was aborted, and its producer is fenced.",
    ),
    "remove-fault": Action(
        "DELETE",
        "/faults/{id}",
        AclOperation.ALTER,
        ResourceType.CLUSTER,
        None,
        "kit",
        None,
        "The fault was removed.",
        needs_kit=True,
    ),
    "advance-clock": Action(
        "POST",
        "/clock/advance",
        AclOperation.ALTER,
        ResourceType.CLUSTER,
        None,
        "kit",
        None,
        "The clock was moved.",
        needs_kit=True,
    ),
}


def done_text(given: str) -> str:
    """What the address of a page says was done, if it is one of our sentences: anybody can make such an address."""
    return given if any(given == action.done for action in ACTIONS.values()) else ""


async def act(ask: Ask, name: str, form: Mapping[str, str]) -> str:
    """Do it, and give the address of the page that shows what was done. Raises ControlError, KafkaError."""
    action = ACTIONS[name]
    if not ask.can_write:
        raise ControlError("the console only shows: set odradek.console.write=true to let it change things", status=403)
    if action.needs_kit and ask.node.faults is None:
        raise ControlError("this broker has no control interface (odradek.control)", status=409)
    given = {key: value for key, value in form.items() if value.strip()}
    subject = CLUSTER_NAME if action.named is None else given.get(action.named, "")
    if action.operation is not AclOperation.CREATE or not ask.rights.allow(*CREATES_ANY):
        ask.rights.check(action.operation, action.resource_type, subject)
    if name == "reset-offsets":
        await _check_topics_read(ask, subject, given.get("topic"))
    endpoint = _endpoint(action)
    answer = endpoint.answer(ask.node, endpoint.check({}, given))
    if inspect.isawaitable(answer):
        await answer
    return link(action.back, **{action.as_: subject} if action.as_ else {}, done=action.done)


async def _check_topics_read(ask: Ask, group_id: str, topic: str | None) -> None:
    """Who commits for a group must be let to read its topics too, as in OffsetCommit. Raises ControlError."""
    group = await read_group(ask.node, group_id)
    for name in {topic} if topic else {name for name, _ in group.offsets}:
        ask.rights.check(AclOperation.READ, ResourceType.TOPIC, name)


def _endpoint(action: Action) -> Endpoint:
    return next(one for one in ENDPOINTS if (one.method, one.path) == (action.method, action.path))
