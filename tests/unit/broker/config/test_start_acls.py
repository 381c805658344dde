"""The ACLs that a broker is started with, as texts."""

from __future__ import annotations

import pytest

from broker.config.structured import parse_start_acls
from metadata.acls import AclOperation, PatternType, PermissionType, ResourceType
from protocol.metadata.credentials import AccessControlEntryRecord


def acl(**fields: object) -> AccessControlEntryRecord:
    usual = {
        "id": None,
        "resource_type": ResourceType.TOPIC,
        "resource_name": "orders",
        "pattern_type": PatternType.LITERAL,
        "principal": "User:app",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": PermissionType.ALLOW,
    }
    return AccessControlEntryRecord(**usual | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "acls"),
    [
        ("", []),
        ("User:app READ TOPIC orders", [acl()]),
        ("app allow read,Write topic orders", [acl(), acl(operation=AclOperation.WRITE)]),
        ("app read topic orders-*", [acl(resource_name="orders-", pattern_type=PatternType.PREFIXED)]),
        ("app read topic *", [acl(resource_name="*")]),
        (
            "app DENY ALL CLUSTER;\n * read transactional-id x from 10.0.0.0/8;",
            [
                acl(
                    resource_type=ResourceType.CLUSTER,
                    resource_name="kafka-cluster",
                    operation=AclOperation.ALL,
                    permission_type=PermissionType.DENY,
                ),
                acl(
                    principal="User:*",
                    resource_type=ResourceType.TRANSACTIONAL_ID,
                    resource_name="x",
                    host="10.0.0.0/8",
                ),
            ],
        ),
    ],
)
def test_texts(text: str, acls: list[AccessControlEntryRecord]) -> None:
    assert parse_start_acls(text) == acls


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("app", "expected PRINCIPAL"),
        ("app READ TOPIC", "expected PRINCIPAL"),
        ("app READ TOPIC a b", "expected PRINCIPAL"),
        ("app FLY TOPIC t", "FLY is no operation; expected one of ALL, READ"),
        ("app READ TABLE t", "TABLE is no type of resource; expected one of TOPIC"),
    ],
)
def test_what_is_wrong_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_start_acls(f"app READ TOPIC t; {text}")
