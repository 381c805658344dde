"""ACLs, SASL, delegation tokens, SCRAM users and quotas of a node that has none of them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from kio.schema.create_acls.v3.request import AclCreation
from kio.schema.delete_acls.v3.request import DeleteAclsFilter
from kio.schema.describe_client_quotas.v1.request import ComponentData
from kio.schema.describe_user_scram_credentials.v0.request import UserName
from kio.schema.errors import ErrorCode

from protocol.primitives import DecodeError
from tests.unit.broker.admin_rig import Rig

HOUR = datetime.timedelta(hours=1)
CREATION: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "t",
    "principal": "User:u",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


async def test_there_are_no_acls_to_list() -> None:
    rig = await Rig.open()
    answer = await rig.ask("describe_acls", **FILTER)
    assert (answer.error_code, answer.error_message) == (ErrorCode.security_disabled, "No authorizer is configured.")


async def test_every_new_acl_is_refused() -> None:
    answer = await (await Rig.open()).ask("create_acls", creations=(AclCreation(**CREATION),) * 2)
    told = [(one.error_code.name, one.error_message) for one in answer.results]
    assert told == [("security_disabled", "No authorizer is configured.")] * 2


async def test_every_filter_of_acls_to_delete_is_refused() -> None:
    answer = await (await Rig.open()).ask("delete_acls", filters=(DeleteAclsFilter(**FILTER),) * 2)
    told = [(one.error_code.name, one.error_message, one.matching_acls) for one in answer.filter_results]
    assert told == [("security_disabled", "No authorizer is configured.", ())] * 2


@pytest.mark.parametrize("name", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
async def test_an_unknown_element_of_a_filter_closes_the_connection(name: str) -> None:
    rig = await Rig.open()
    unknown = FILTER | {name: 0}
    with pytest.raises(DecodeError):
        await rig.ask("describe_acls", **unknown)
    with pytest.raises(DecodeError):
        await rig.ask("delete_acls", filters=(DeleteAclsFilter(**FILTER), DeleteAclsFilter(**unknown)))


@pytest.mark.parametrize("name", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
async def test_an_unknown_element_of_a_new_acl_closes_the_connection(name: str) -> None:
    creations = (AclCreation(**CREATION), AclCreation(**CREATION | {name: 0}))
    with pytest.raises(DecodeError):
        await (await Rig.open()).ask("create_acls", creations=creations)


async def test_sasl_is_out_of_place() -> None:
    rig = await Rig.open()
    assert (await rig.ask("sasl_handshake", mechanism="PLAIN")).error_code is ErrorCode.illegal_sasl_state
    answer = await rig.ask("sasl_authenticate", auth_bytes=b"\0user\0password")
    assert answer.error_code is ErrorCode.illegal_sasl_state
    assert "asks for no authentication" in answer.error_message


@pytest.mark.parametrize(
    ("owner", "code", "told_owner"),
    [
        ((None, None), "delegation_token_request_not_allowed", ("User", "ANONYMOUS")),
        (("Group", ""), "delegation_token_request_not_allowed", ("User", "ANONYMOUS")),
        (("Group", "g"), "delegation_token_request_not_allowed", ("Group", "g")),
        ((None, "u"), "invalid_request", ("User", "ANONYMOUS")),
    ],
)
async def test_no_token_is_given_over_plaintext(
    owner: tuple[str | None, str | None], code: str, told_owner: tuple[str, str]
) -> None:
    answer = await (await Rig.open()).ask(
        "create_delegation_token",
        owner_principal_type=owner[0],
        owner_principal_name=owner[1],
        renewers=(),
        max_lifetime=HOUR,
    )
    assert answer.error_code.name == code
    assert (answer.principal_type, answer.principal_name) == told_owner
    assert (answer.token_requester_principal_type, answer.token_requester_principal_name) == ("User", "ANONYMOUS")
    assert (answer.issue_timestamp, answer.expiry_timestamp, answer.max_timestamp) == (-1, -1, -1)
    assert (answer.token_id, answer.hmac) == ("", b"")


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        ("renew_delegation_token", {"hmac": b"x", "renew_period": HOUR}),
        ("expire_delegation_token", {"hmac": b"x", "expiry_time_period": HOUR}),
        ("describe_delegation_token", {"owners": None}),
    ],
)
async def test_no_token_is_looked_at_over_plaintext(api: str, fields: dict[str, Any]) -> None:
    rig = await Rig.open()
    assert (await rig.ask(api, **fields)).error_code is ErrorCode.delegation_token_request_not_allowed


async def scram(*users: str) -> list[tuple[str, str, str]]:
    asked = tuple(UserName(name=user) for user in users)
    answer = await (await Rig.open()).ask("describe_user_scram_credentials", users=asked)
    assert (answer.error_code.name, answer.error_message) == ("none", "")
    return [(one.user, one.error_code.name, one.error_message) for one in answer.results]


async def test_nobody_has_scram_credentials() -> None:
    unknown = "Attempt to describe a user credential that does not exist: "
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    assert await scram() == []
    assert await scram("a", "b", "a") == [
        ("a", "duplicate_resource", twice + "a"),
        ("b", "resource_not_found", unknown + "b"),
    ]
    answer = await (await Rig.open()).ask("describe_user_scram_credentials", users=None)
    assert answer.results == ()


async def quotas(*components: tuple[str, int, str | None]) -> tuple[str, str, Any]:
    asked = tuple(ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components)
    answer = await (await Rig.open()).ask("describe_client_quotas", components=asked, strict=False)
    return answer.error_code.name, answer.error_message, answer.entries


@pytest.mark.parametrize(
    "components",
    [(), (("user", 0, "u"), ("client-id", 2, None)), (("ip", 1, None),), (("client-id", 0, ""),)],
)
async def test_no_quota_is_set(components: tuple[tuple[str, int, str | None], ...]) -> None:
    assert await quotas(*components) == ("none", "", ())


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ((("", 3, "x"),), "invalid_request", "Invalid empty entity type."),
        ((("group", 3, None),), "unsupported_version", "Unsupported entity type group"),
        (
            (("user", 1, None), ("user", 3, "x")),
            "invalid_request",
            "Entity type user cannot appear more than once in the filter.",
        ),
        ((("user", 0, None),), "invalid_request", "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        (
            (("user", 1, ""),),
            "invalid_request",
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            (("user", 2, "u"),),
            "invalid_request",
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ((("user", 3, None), ("group", 0, "g")), "invalid_request", "Unknown match type 3"),
        (
            (("ip", 2, None), ("client-id", 0, "c")),
            "invalid_request",
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component.",
        ),
    ],
)
async def test_filters_of_quotas_that_make_no_sense(
    components: tuple[tuple[str, int, str | None], ...], code: str, message: str
) -> None:
    assert await quotas(*components) == (code, message, None)
