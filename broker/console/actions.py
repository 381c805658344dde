"""What the console's forms do. Each is asked of the node as a client asks it, in Kafka's own requests (`own_client`).

Two move what only a test may move, and are endpoints of the control interface. Whatever is done or refused is noted
(`audit`), and a refusal is shown beside the form, which keeps what was typed.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from broker.console import (
    acls,
    change_groups,
    change_schemas,
    change_topics,
    configs,
    movements,
    produce,
    tokens,
    users,
)
from broker.console.ask import Ask, Done
from broker.console.formats import link
from broker.testkit.control.app import ENDPOINTS
from broker.testkit.control.endpoint import ControlError

Given = Mapping[str, str]
"""Parameters of a page."""

LARGEST_FORM_BYTES = 64 * 1024


class Action(NamedTuple):
    """`act` does it with the fields of the form, which `ask.given` has.

    Attributes:
        done: what is said then; `also` are other sentences that `act` may say in place of it.
        page: the page with the form. Its parameters are the fields of the form that `shows` names.
        back: the page that is shown when it is done, if that is another one.
        told: the fields that are noted; all that begin with one that ends in a colon.
        is_decided: the controller decides it, so that this node may learn of it a little later.
        needs_kit: it is done by the control interface.
    """

    act: Callable[[Ask], Awaitable[Done]]
    done: str
    page: str
    shows: Given = MappingProxyType({})
    back: str | None = None
    also: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    is_decided: bool = False
    needs_kit: bool = False
    most_bytes: int = LARGEST_FORM_BYTES


def _of_kit(line: str) -> Callable[[Ask], Awaitable[Done]]:
    """What an endpoint of the control interface does."""
    method, path = line.split()
    endpoint = next(one for one in ENDPOINTS if (one.method, one.path) == (method, path))

    async def act(ask: Ask) -> Done:
        values = endpoint.check({}, {key: value for key, value in ask.given.items() if value.strip()})
        answer = endpoint.answer(ask.node, values)
        if inspect.isawaitable(answer):
            await answer
        return Done()

    return act


TOPIC: Given = {"name": "topic"}
GROUP: Given = {"id": "group"}
SUBJECT: Given = {"subject": "subject"}
ACL = ("permission", "principal", "host", "operation", "resource", "name", "pattern")

ACTIONS: Mapping[str, Action] = {
    "produce-record": Action(
        produce.send,
        "The record was written.",
        "produce",
        {name: name for name in ("topic", "from_partition", "from_offset")},
        back="message",
        told=("topic", "partition", "timestamp"),
        most_bytes=produce.LARGEST_BYTES,
    ),
    "create-topic": Action(
        change_topics.create,
        "The topic was created.",
        "new-topic",
        back="topic",
        also=(change_topics.CHECKED,),
        told=("do", "topic", "partitions", "replicas", "assignment", "config:"),
        is_decided=True,
    ),
    "add-partitions": Action(
        change_topics.add_partitions,
        "The topic has more partitions now.",
        "topic",
        TOPIC,
        told=("topic", "partitions", "assignment"),
        is_decided=True,
    ),
    "truncate-topic": Action(
        change_topics.delete_records,
        "The records were deleted.",
        "topic",
        TOPIC,
        told=("topic", "partition", "before"),
    ),
    "delete-topic": Action(
        change_topics.delete, "Deleted.", "topic", TOPIC, back="topics", told=("topic",), is_decided=True
    ),
    "alter-topic-config": Action(
        configs.alter_topic,
        "The configuration was changed.",
        "topic-configs",
        {"name": "topic", "key": "key"},
        told=("topic", "key", "do", "value"),
        is_decided=True,
    ),
    "register-schema": Action(
        change_schemas.register,
        "The schema is registered.",
        "schema",
        SUBJECT,
        also=(change_schemas.FITS,),
        told=("do", "subject", "type"),
        most_bytes=change_schemas.LARGEST_BYTES,
    ),
    "delete-schema": Action(
        change_schemas.delete, "Deleted.", "schema", SUBJECT, told=("subject", "version", "permanent")
    ),
    "set-schema-level": Action(
        change_schemas.set_level,
        "Level and mode are set.",
        "schema",
        SUBJECT,
        told=("subject", "level", "mode"),
    ),
    "alter-broker-config": Action(
        configs.alter_broker,
        "The configuration was changed.",
        "broker-configs",
        {"broker": "broker", "key": "key"},
        told=("broker", "key", "do", "value"),
        is_decided=True,
    ),
    "move-replicas": Action(
        movements.move,
        "The replicas move now.",
        "movements",
        told=("topic", "partition", "brokers"),
        is_decided=True,
    ),
    "cancel-move": Action(
        movements.cancel,
        "The replicas stay where they are.",
        "movements",
        told=("topic", "partition"),
        is_decided=True,
    ),
    "elect-leaders": Action(
        movements.elect,
        "Leaders were elected.",
        "movements",
        also=(movements.NOT_NEEDED,),
        told=("election", "topic", "partition"),
    ),
    "add-acl": Action(acls.add, "The ACL counts now.", "acls", told=ACL, is_decided=True),
    "delete-acl": Action(acls.delete, "The ACL counts no longer.", "acls", told=ACL, is_decided=True),
    "set-password": Action(
        users.set_password,
        "The user can log in with the password now.",
        "users",
        told=("user", "mechanism", "iterations"),
        is_decided=True,
    ),
    "delete-password": Action(
        users.delete_password,
        "The user can no longer log in with this mechanism.",
        "users",
        told=("user", "mechanism"),
        is_decided=True,
    ),
    "set-quota": Action(
        users.set_quota,
        "The quota was changed.",
        "quotas",
        told=("do", "user", "client", "ip", "key", "value"),
        is_decided=True,
    ),
    "create-token": Action(
        tokens.create,
        "The token was made: its secret is shown below.",
        "tokens",
        told=("owner", "renewers", "hours"),
        is_decided=True,
    ),
    "renew-token": Action(tokens.renew, "The token lives longer now.", "tokens", told=("id", "hours"), is_decided=True),
    "expire-token": Action(tokens.expire, "The token has ended.", "tokens", told=("id",), is_decided=True),
    "reset-offsets": Action(
        change_groups.reset_offsets,
        "The group has other offsets now.",
        "group",
        GROUP,
        told=("group", "to", "topic", "partition"),
    ),
    "delete-offsets": Action(
        change_groups.delete_offsets,
        "The offsets were deleted.",
        "group",
        GROUP,
        told=("group", "topic", "partition"),
    ),
    "delete-group": Action(change_groups.delete, "Deleted.", "group", GROUP, back="groups", told=("group",)),
    "abort-transaction": Action(
        change_groups.abort_transaction,
        "The transaction was aborted, and its producer is fenced.",
        "transaction",
        {"id": "transactional_id"},
        told=("transactional_id",),
    ),
    "remove-fault": Action(
        _of_kit("DELETE /faults/{id}"), "The fault was removed.", "kit", told=("id",), needs_kit=True
    ),
    "advance-clock": Action(
        _of_kit("POST /clock/advance"), "The clock was moved.", "kit", told=("seconds",), needs_kit=True
    ),
}
"""What they ask of the authorizer is in `broker.authorization.console_table`."""


def done_text(given: str) -> str:
    """What the address of a page says was done, if it is one of our sentences: anybody can make such an address."""
    return given if any(given in (action.done, *action.also) for action in ACTIONS.values()) else ""


async def act(ask: Ask, name: str) -> str:
    """Do it, and give the address of the page that shows what was done. Raises ControlError, KafkaError.

    `ask` has the fields of the form, and the rights of the action's line in the table.
    """
    action, node = ACTIONS[name], ask.node
    if not ask.can_write:
        raise ControlError("the console only shows: set odradek.console.write=true to let it change things", status=403)
    if action.needs_kit and node.faults is None:
        raise ControlError("this broker has no control interface (odradek.control)", status=409)
    ask.rights.check_needed({key: value for key, value in ask.given.items() if value})
    before = node.cluster.cache.image.offset
    done = await action.act(ask)
    if action.is_decided and node.controller.is_elsewhere:
        await _learnt(ask, before)
    return link(done.back or action.back or action.page, **done.given, done=done.said or action.done)


LOOK_MS = 5.0
MOST_LOOKS = 200


async def _learnt(ask: Ask, before: int) -> None:
    """Wait until this node has heard of a change, for a second at most: the next page shall show it."""
    for _ in range(MOST_LOOKS):
        if ask.node.cluster.cache.image.offset > before:
            return
        await ask.node.clock.machine.sleep(LOOK_MS)
