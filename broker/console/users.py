"""Users with SCRAM passwords, and quotas of users, clients and addresses."""

from __future__ import annotations

import math
import secrets
from functools import partial
from typing import Any

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest

from broker.console.ask import Ask, Done, Values
from broker.console.own_client import ask_broker, require
from broker.console.tables import numbers, sorted_part, texts, with_forms
from broker.testkit.control.endpoint import ControlError
from controller.quotas import CLIENT_ID, IP, USER
from controller.scram import MAX_ITERATIONS, MIN_ITERATIONS, SALT_BYTES, SCRAM_MECHANISMS, ScramMechanism, salted

ON_A_PAGE = 100


USERS = (texts("user", "User"), texts("mechanism", "Mechanism"), numbers("iterations", "Iterations"))


async def users(ask: Ask) -> Values:
    answer = await ask_broker(ask, DescribeUserScramCredentialsRequest(users=None))
    require(answer)
    part = ask.text("q").lower()
    found = [
        {
            "user": one.user,
            "mechanism": ScramMechanism(info.mechanism).sasl_name,
            "iterations": info.iterations,
        }
        for one in answer.results
        for info in one.credential_infos
        if part in one.user.lower()
    ]
    order, paging = sorted_part(ask, with_forms(ask, USERS), found, ON_A_PAGE)
    return {"order": order, "paging": paging, "q": part, "mechanisms": tuple(SCRAM_MECHANISMS)}


async def set_password(ask: Ask) -> Done:
    """Set the password of a user, who may be new. It is stretched here, as admin clients do it: none is sent on."""
    user, password = ask.needed("user"), ask.given.get("password", "")
    if not password:
        raise ControlError("password is missing", parameter="password")
    if password != ask.given.get("again", ""):
        raise ControlError("the passwords are not the same: type both again", parameter="again")
    mechanism = SCRAM_MECHANISMS[ask.choice("mechanism", tuple(SCRAM_MECHANISMS))]
    iterations = ask.integer("iterations", MIN_ITERATIONS)
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ControlError(
            f"iterations = {iterations}: expected {MIN_ITERATIONS} to {MAX_ITERATIONS}", parameter="iterations"
        )
    workers = ask.node.base.seams.workers.lane("security")
    new = await workers.call(partial(salted, user, mechanism, password, secrets.token_bytes(SALT_BYTES), iterations))
    wanted = ScramCredentialUpsertion(
        name=new.user,
        mechanism=new.mechanism,
        iterations=new.iterations,
        salt=new.salt,
        salted_password=new.salted_password,
    )
    answer = await ask_broker(ask, AlterUserScramCredentialsRequest(deletions=(), upsertions=(wanted,)))
    require(answer.results[0])
    return Done()


async def delete_password(ask: Ask) -> Done:
    mechanism = SCRAM_MECHANISMS[ask.choice("mechanism", tuple(SCRAM_MECHANISMS))]
    gone = ScramCredentialDeletion(name=ask.needed("user"), mechanism=mechanism)
    answer = await ask_broker(ask, AlterUserScramCredentialsRequest(deletions=(gone,), upsertions=()))
    require(answer.results[0])
    return Done()


DEFAULT = "<default>"
"""In place of a name, as in Kafka's tools: all that have no quota of their own."""

PARTS = {"user": USER, "client": CLIENT_ID, "ip": IP}
"""The entity's parts by the form's field."""

QUOTAS = {
    "producer_byte_rate": "bytes per second that are produced",
    "consumer_byte_rate": "bytes per second that are fetched",
    "request_percentage": "percent of a thread's time for requests",
    "controller_mutation_rate": "partitions per second that are created or deleted",
    "connection_creation_rate": "new connections per second (of an address)",
}


QUOTA_COLUMNS = (
    texts("user", "User", lambda row: row["user"] or None),
    texts("client", "Client id", lambda row: row["client"] or None),
    texts("ip", "Address", lambda row: row["ip"] or None),
    texts("quota", "Quota", lambda row: row["key"]),
    numbers("value", "Value", lambda row: row["number"]),
)


async def quotas(ask: Ask) -> Values:
    answer = await ask_broker(ask, DescribeClientQuotasRequest(components=(), strict=False))
    require(answer)
    part = ask.text("q").lower()
    found = [
        {**_entity(entry), "key": value.key, "value": f"{value.value:.15g}", "number": value.value}
        for entry in answer.entries or ()
        for value in entry.values
        if any(part in (each.entity_name or DEFAULT).lower() for each in entry.entity)
    ]
    order, paging = sorted_part(ask, with_forms(ask, QUOTA_COLUMNS), found, ON_A_PAGE)
    return {"order": order, "paging": paging, "q": part, "quotas": QUOTAS, "default": DEFAULT}


def _entity(entry: Any) -> dict[str, str]:
    """The names of an entity by the form's field; empty for a part that it has not."""
    named = {each.entity_type: DEFAULT if each.entity_name is None else each.entity_name for each in entry.entity}
    return {field: named.get(kind, "") for field, kind in PARTS.items()}


async def set_quota(ask: Ask) -> Done:
    """Set a quota, or with `do=remove` have none."""
    remove = ask.choice("do", ("set", "remove")) == "remove"
    key = ask.choice("key", tuple(QUOTAS))
    entity = tuple(
        EntityData(entity_type=kind, entity_name=None if name == DEFAULT else name)
        for field, kind in PARTS.items()
        if (name := ask.given.get(field, ""))
    )
    if not entity:
        raise ControlError(f"name a user, a client id or an address; {DEFAULT} stands for all others", parameter="user")
    op = OpData(key=key, value=0.0 if remove else _number(ask.text("value")), remove=remove)
    request = AlterClientQuotasRequest(entries=(EntryData(entity=entity, ops=(op,)),), validate_only=False)
    answer = await ask_broker(ask, request)
    require(answer.entries[0], "value")
    return Done()


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ControlError(f"value = {text!r}: expected a number", parameter="value")
    return number
