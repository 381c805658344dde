"""What the console's forms change: each is an endpoint of the control interface, as far as Kafka's API allows it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import NamedTuple

from broker.authorization.console_table import SIZES
from broker.console.ask import Ask
from broker.console.formats import link
from broker.console.groups import shows_members
from broker.testkit.control.app import ENDPOINTS
from broker.testkit.control.endpoint import ControlError, Endpoint
from broker.testkit.inspection import read_group
from broker.testkit.inspection.share_and_streams import read_share_offsets
from metadata.acls import CLUSTER_NAME, ResourceType


class Action(NamedTuple):
    """`named` is the parameter with the name of what is changed, None for the cluster.

    `back` is the page that is shown then, with that name in its parameter `as_`; `done` says what was done.
    """

    method: str
    path: str
    named: str | None
    back: str
    as_: str | None
    done: str
    needs_kit: bool = False


ACTIONS: Mapping[str, Action] = {
    "create-topic": Action("POST", "/topics", "topic", "topic", "name", "The topic was created."),
    "delete-topic": Action("DELETE", "/topics/{topic}", "topic", "topics", None, "Deleted."),
    "truncate-topic": Action("POST", "/topics/{topic}/truncate", "topic", "topic", "name", "The records were deleted."),
    "reset-offsets": Action(
        "POST", "/groups/{group}/reset_offsets", "group", "group", "id", "The group has other offsets now."
    ),
    "delete-group": Action("DELETE", "/groups/{group}", "group", "groups", None, "Deleted."),
    "abort-transaction": Action(
        "POST",
        "/transactions/{transactional_id}/abort",
        "transactional_id",
        "transaction",
        "id",
        "The transaction was aborted, and its producer is fenced.",
    ),
    "remove-fault": Action("DELETE", "/faults/{id}", None, "kit", None, "The fault was removed.", needs_kit=True),
    "advance-clock": Action("POST", "/clock/advance", None, "kit", None, "The clock was moved.", needs_kit=True),
}
"""What they ask of the authorizer is in `broker.authorization.console_table`."""


def done_text(given: str) -> str:
    """What the address of a page says was done, if it is one of our sentences: anybody can make such an address."""
    return given if any(given == action.done for action in ACTIONS.values()) else ""


async def act(ask: Ask, name: str, form: Mapping[str, str]) -> str:
    """Do it, and give the address of the page that shows what was done. Raises ControlError, KafkaError.

    `ask` has the rights of the action's line in the table.
    """
    action = ACTIONS[name]
    if not ask.can_write:
        raise ControlError("the console only shows: set odradek.console.write=true to let it change things", status=403)
    if action.needs_kit and ask.node.faults is None:
        raise ControlError("this broker has no control interface (odradek.control)", status=409)
    given = {key: value for key, value in form.items() if value.strip()}
    ask.rights.check_needed(given)
    subject = CLUSTER_NAME if action.named is None else given.get(action.named, "")
    endpoint = _endpoint(action)
    values = endpoint.check({}, given)
    if action.named == "topic":
        _check_topic(ask, name, subject)
    if action.named == "group":
        await _check_group(ask, subject, all_topics=name == "reset-offsets" and "topic" not in given)
    answer = endpoint.answer(ask.node, values)
    if inspect.isawaitable(answer):
        await answer
    return link(action.back, **{action.as_: subject} if action.as_ else {}, done=action.done)


def _check_topic(ask: Ask, name: str, topic: str) -> None:
    """Refuse what the endpoint would refuse with more than the user may know. Raises ControlError."""
    exists = ask.node.cluster.cache.topic(topic) is not None
    if name == "create-topic":
        if exists and not ask.rights.allow("metadata", ResourceType.TOPIC, topic):
            raise ControlError(f"TOPIC_ALREADY_EXISTS: the topic {topic} exists", parameter="topic", status=409)
    elif not exists and not ask.rights.allow(SIZES, ResourceType.CLUSTER):
        raise ControlError(f"there is no topic {topic!r}", parameter="topic", status=404)


async def _check_group(ask: Ask, group_id: str, *, all_topics: bool) -> None:
    """The same for a group, and its topics if offsets of `all_topics` are committed, as in OffsetCommit."""
    group = await read_group(ask.node, group_id)
    if group.members and not shows_members(ask, group):
        raise ControlError(f"group {group_id} is {group.state} and has members", status=409)
    offsets = (group.offsets or await read_share_offsets(ask.node, group)) if all_topics else ()
    for name in sorted({name for name, _ in offsets}):
        if not ask.rights.allow("offset_fetch", ResourceType.TOPIC, name):
            raise ControlError(
                f"the group has committed to a topic that {ask.rights.user} may not see: name the topic to reset",
                parameter="topic",
                status=403,
            )
        ask.rights.check("offset_commit", ResourceType.TOPIC, name)


def _endpoint(action: Action) -> Endpoint:
    return next(one for one in ENDPOINTS if (one.method, one.path) == (action.method, action.path))
