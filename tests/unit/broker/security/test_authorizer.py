"""The authorizer beside a model that walks over all ACLs; its index with many of them; what a connection keeps."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.security.authorizer import Authorizer
from broker.security.permissions import LONGEST_NAME, MOST_DECISIONS, Permissions
from metadata.acls import AclOperation, PatternType, PermissionType, ResourceType
from protocol.metadata.credentials import AccessControlEntryRecord

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
HOST = "10.0.0.7"

IMPLYING = {
    DESCRIBE: {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def acl(
    name: str,
    operation: AclOperation = READ,
    permission: PermissionType = ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    prefixed: bool = False,
    resource_type: ResourceType = TOPIC,
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=None,
        resource_type=resource_type,
        resource_name=name,
        pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def authorizer(*acls: AccessControlEntryRecord, everyone: bool = False) -> Authorizer:
    made = Authorizer(["User:admin"], allow_everyone_if_no_acl_found=everyone)
    made.load({UUID(int=number): each for number, each in enumerate(acls)})
    return made


# -- the model


def concerns(one: AccessControlEntryRecord, resource_type: int, name: str) -> bool:
    if one.resource_type != resource_type:
        return False
    if one.pattern_type == PatternType.PREFIXED:
        return name.startswith(one.resource_name)
    return one.resource_name in ("*", name)


def names_client(one: AccessControlEntryRecord, principal: str, host: str) -> bool:
    at_host = one.host in ("*", host) or (
        "/" in one.host and ipaddress.ip_address(host) in ipaddress.ip_network(one.host)
    )
    return one.principal in ("User:*", principal) and at_host


def model_allows(
    acls: Iterable[AccessControlEntryRecord],
    principal: str,
    host: str,
    operation: AclOperation,
    resource: tuple[ResourceType, str],
    everyone: bool,
) -> bool:
    if principal == "User:admin":
        return True
    found = [one for one in acls if concerns(one, *resource)]
    if not found:
        return everyone
    own = [one for one in found if names_client(one, principal, host)]
    if any(one.permission_type == DENY and one.operation in (operation, ALL) for one in own):
        return False
    enough = {operation, ALL, *IMPLYING.get(operation, ())}
    return any(one.permission_type == ALLOW and one.operation in enough for one in own)


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "ba", "x"])
OPERATIONS = st.sampled_from([READ, WRITE, DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS])
PRINCIPALS = st.sampled_from(["User:alice", "User:bob", "User:admin", "User:*"])
HOSTS = st.sampled_from(["10.0.0.7", "10.0.0.8", "192.168.1.1"])
ACLS = st.lists(
    st.builds(
        acl,
        NAMES,
        st.one_of(OPERATIONS, st.just(ALL)),
        st.sampled_from([ALLOW, DENY]),
        principal=PRINCIPALS,
        host=st.one_of(HOSTS, st.sampled_from(["*", "10.0.0.0/8"])),
        prefixed=st.booleans(),
        resource_type=st.sampled_from([TOPIC, GROUP]),
    ),
    max_size=12,
)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(ACLS, st.sets(st.integers(0, 11)), PRINCIPALS, HOSTS, OPERATIONS, NAMES, st.booleans())
def test_decisions_are_those_of_a_walk_over_all_acls(
    acls: list[AccessControlEntryRecord],
    removed: set[int],
    principal: str,
    host: str,
    operation: AclOperation,
    name: str,
    everyone: bool,
) -> None:
    made = authorizer(*acls, everyone=everyone)
    made.follow({UUID(int=number): None for number in removed})
    left = [one for number, one in enumerate(acls) if number not in removed]
    expected = model_allows(left, principal, host, operation, (TOPIC, name), everyone)
    assert made.allows(principal, host, operation, TOPIC, name) is expected


UNIVERSE = ["a", "ac", "ab", "abc", "b", "bc", "x"]
"""For each pattern that the test makes there is a name here that only this one and its beginnings cover."""


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.builds(
            acl,
            st.sampled_from(["a", "ab", "b", "*"]),
            st.just(READ),
            st.sampled_from([ALLOW, DENY]),
            prefixed=st.booleans(),
        ),
        max_size=8,
    ).filter(
        lambda acls: not any(one.resource_name == "*" and one.pattern_type == PatternType.PREFIXED for one in acls)
    )
)
def test_some_resource_is_allowed_if_a_walk_finds_one_that_no_pattern_denies(
    acls: list[AccessControlEntryRecord],
) -> None:
    made = authorizer(*acls)
    possible = any(model_allows(acls, "User:alice", HOST, READ, (TOPIC, name), False) for name in UNIVERSE)
    assert made.allows_any("User:alice", HOST, READ, TOPIC) is possible


# -- rules that the model shares, by example


def test_a_deny_acl_wins_wherever_it_stands() -> None:
    made = authorizer(acl("t"), acl("t", prefixed=True, permission=DENY), acl("*"))
    assert not made.allows("User:alice", HOST, READ, TOPIC, "t")


def test_what_implies_describe_does_so_only_where_it_is_allowed() -> None:
    made = authorizer(acl("t", READ), acl("t", WRITE, DENY))
    assert made.allows("User:alice", HOST, DESCRIBE, TOPIC, "t")
    denied = authorizer(acl("t", READ), acl("t", DESCRIBE, DENY))
    assert denied.allows("User:alice", HOST, READ, TOPIC, "t")
    assert not denied.allows("User:alice", HOST, DESCRIBE, TOPIC, "t")


def test_a_prefixed_acl_of_a_star_is_a_star() -> None:
    made = authorizer(acl("*", prefixed=True))
    assert made.allows("User:alice", HOST, READ, TOPIC, "*x")
    assert not made.allows("User:alice", HOST, READ, TOPIC, "x")


def test_allow_everyone_if_no_acl_found_ends_with_any_acl_on_the_resource() -> None:
    made = authorizer(acl("t", principal="User:bob", host="1.1.1.1"), everyone=True)
    assert not made.allows("User:alice", HOST, READ, TOPIC, "t")
    assert made.allows("User:alice", HOST, READ, TOPIC, "u")


def test_a_host_that_is_no_address_is_in_no_network() -> None:
    made = authorizer(acl("t", host="10.0.0.0/8"), acl("u", host="none/8"))
    assert made.allows("User:alice", HOST, READ, TOPIC, "t")
    assert not made.allows("User:alice", "unknown", READ, TOPIC, "t")
    assert not made.allows("User:alice", HOST, READ, TOPIC, "u")


def test_idempotent_writes_need_some_topic_even_by_prefix() -> None:
    assert authorizer(acl("p", WRITE, prefixed=True)).allows_any("User:alice", HOST, WRITE, TOPIC)
    covered = authorizer(acl("pq", WRITE, prefixed=True), acl("p", WRITE, DENY, prefixed=True))
    assert not covered.allows_any("User:alice", HOST, WRITE, TOPIC)
    assert not authorizer(acl("p", WRITE), acl("*", ALL, DENY)).allows_any("User:alice", HOST, WRITE, TOPIC)


# -- many ACLs


def test_a_decision_looks_at_few_of_ten_thousand_acls() -> None:
    acls = [acl(f"topic-{number:05}", principal=f"User:u{number % 100}", prefixed=number % 2 == 0)
            for number in range(10_000)]  # fmt: skip
    made = authorizer(*acls)
    looked_at = [one for by in made._index.of(TOPIC, "topic-00042") for one in by.get("User:u42", {}).values()]
    assert len(looked_at) == 1
    assert made.allows("User:u42", HOST, READ, TOPIC, "topic-00042-more")
    assert not made.allows("User:u42", HOST, READ, TOPIC, "topic-00043")
    made.follow({UUID(int=number): None for number in range(10_000)})
    assert not made.allows("User:u42", HOST, READ, TOPIC, "topic-00042")
    assert made._index.__dict__ == authorizer()._index.__dict__ | {"_lengths": {TOPIC: {}}}


# -- what a connection keeps


def test_a_connection_asks_once_until_the_acls_change(monkeypatch: pytest.MonkeyPatch) -> None:
    made = authorizer(acl("t"))
    asked: list[str] = []
    decide = made.allows

    def noted(principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        asked.append(name)
        return decide(principal, host, operation, resource_type, name)

    monkeypatch.setattr(made, "allows", noted)
    permissions = Permissions(made, "User:alice", HOST)
    assert [permissions.allows(READ, TOPIC, "t") for _ in range(3)] == [True] * 3
    assert asked == ["t"]
    made.follow({UUID(int=0): None})
    assert not permissions.allows(READ, TOPIC, "t")
    assert asked == ["t", "t"]


def test_a_client_cannot_make_its_connection_keep_more_and_more() -> None:
    permissions = Permissions(authorizer(acl("*")), "User:alice", HOST)
    for number in range(MOST_DECISIONS * 2 + 10):
        assert permissions.allows(READ, TOPIC, f"t{number}")
    assert len(permissions._decisions) <= MOST_DECISIONS


def test_all_operations_of_a_resource_as_bits() -> None:
    permissions = Permissions(authorizer(acl("t", READ)), "User:alice", HOST)
    assert permissions.operations(TOPIC, "t") == 1 << READ | 1 << DESCRIBE
    assert Permissions(authorizer(), "User:admin", HOST).operations(GROUP, "g") == 0b110101001000


def test_decisions_about_long_names_are_not_kept() -> None:
    """A client may ask about names of 32,767 bytes, and about as many as it likes."""
    permissions = Permissions(authorizer(acl("a", prefixed=True)), "User:alice", HOST)
    for length in (LONGEST_NAME, LONGEST_NAME + 1, 32_767):
        assert permissions.allows(READ, TOPIC, "a" * length)
        assert not permissions.allows(READ, TOPIC, "b" * length)
    assert {len(name) for _, _, name in permissions._decisions} == {LONGEST_NAME}
