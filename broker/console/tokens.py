"""Delegation tokens: those that the user may see, new ones, longer lives and early ends (KIP-48).

As everywhere in Kafka, owner and renewers alone may renew and end a token; and the broker needs a key for them.
"""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

from kio.schema.create_delegation_token.v3.request import CreatableRenewers, CreateDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.schema.errors import ErrorCode
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest

from broker.console.ask import Ask, Done, Values
from broker.console.own_client import ask_broker, refusal, require
from broker.console.tables import sorted_part, texts, times, with_forms
from broker.testkit.control.endpoint import ControlError

ON_A_PAGE = 50
MOST_HOURS = 24 * 365 * 100
NOW = timedelta(milliseconds=-1)
AS_THE_BROKER_SAYS = timedelta(milliseconds=-1)
NO_TOKENS = frozenset({ErrorCode.delegation_token_auth_disabled, ErrorCode.delegation_token_request_not_allowed})


COLUMNS = (
    texts("id", "Token"),
    texts("owner", "Owner"),
    texts("renewers", "Renewers"),
    times("made", "Made", lambda row: row["issued_ms"]),
    times("ends", "Ends", lambda row: row["expires_ms"]),
    times("latest", "At the latest", lambda row: row["ends_ms"]),
)


async def tokens(ask: Ask) -> Values:
    """Where there are none, the page says why."""
    answer = await ask_broker(ask, DescribeDelegationTokenRequest(owners=None))
    why = str(refusal(answer.error_code, None)) if answer.error_code in NO_TOKENS else ""
    if not why:
        require(answer)
    now_ms = ask.node.local.clock.wall_ms()
    rows = [_row(ask, one, now_ms) for one in answer.tokens]
    order, paging = sorted_part(ask, with_forms(ask, COLUMNS), rows[::-1], ON_A_PAGE)
    return {"order": order, "paging": paging, "why": why}


def _row(ask: Ask, one: Any, now_ms: float) -> dict[str, Any]:
    owner = f"{one.principal_type}:{one.principal_name}"
    renewers = [f"{each.principal_type}:{each.principal_name}" for each in one.renewers]
    return {
        "id": one.token_id,
        "owner": owner,
        "requester": f"{one.token_requester_principal_type}:{one.token_requester_principal_name}",
        "renewers": renewers,
        "issued_ms": one.issue_timestamp,
        "expires_ms": one.expiry_timestamp,
        "left_ms": max(one.expiry_timestamp - now_ms, 0),
        "ends_ms": one.max_timestamp,
        "hmac": base64.b64encode(one.hmac).decode(),
        "is_mine": str(ask.rights.principal) in (owner, *renewers),
    }


async def create(ask: Ask) -> Done:
    owner = _principal(ask.text("owner"), "owner") if ask.text("owner") else (None, None)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner[0],
        owner_principal_name=owner[1],
        renewers=tuple(
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in (_principal(each.strip(), "renewers") for each in ask.text("renewers").split(",") if each)
        ),
        max_lifetime=_hours(ask, "hours"),
    )
    require(await ask_broker(ask, request))
    return Done()


async def renew(ask: Ask) -> Done:
    hmac = await _hmac(ask)
    require(await ask_broker(ask, RenewDelegationTokenRequest(hmac=hmac, renew_period=_hours(ask, "hours"))))
    return Done()


async def expire(ask: Ask) -> Done:
    require(await ask_broker(ask, ExpireDelegationTokenRequest(hmac=await _hmac(ask), expiry_time_period=NOW)))
    return Done()


async def _hmac(ask: Ask) -> bytes:
    """What the owner of a token shows: of those that the user may see. Raises ControlError."""
    token_id = ask.needed("id")
    answer = await ask_broker(ask, DescribeDelegationTokenRequest(owners=None))
    require(answer)
    found = next((one.hmac for one in answer.tokens if one.token_id == token_id), None)
    if found is None:
        raise ControlError(f"there is no token {token_id}", parameter="id", status=404)
    return bytes(found)


def _principal(text: str, parameter: str) -> tuple[str, str]:
    kind, _, name = text.partition(":")
    if not kind or not name:
        raise ControlError(f"{parameter} = {text!r}: expected a type and a name, as User:app", parameter=parameter)
    return kind, name


def _hours(ask: Ask, parameter: str) -> timedelta:
    hours = ask.integer(parameter, most=MOST_HOURS)
    return timedelta(hours=hours) if hours else AS_THE_BROKER_SAYS
