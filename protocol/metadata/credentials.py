"""Records of who may come in and what they may do: SCRAM credentials, delegation tokens and ACLs."""

from __future__ import annotations

from dataclasses import field

from ..declared import Bytes, Int8, Int32, Int64, String, Uuid, record


@record(11)
class UserScramCredentialRecord:
    """A user's credential of one SCRAM mechanism (KIP-554, KIP-900)."""

    name: String
    mechanism: Int8
    salt: Bytes = field(repr=False)
    stored_key: Bytes = field(repr=False)
    server_key: Bytes = field(repr=False)
    iterations: Int32


@record(22)
class RemoveUserScramCredentialRecord:
    """A user has no longer a credential of this mechanism."""

    name: String
    mechanism: Int8


@record(10)
class DelegationTokenRecord:
    """A delegation token was made or renewed; times are in milliseconds (KIP-48, KIP-900)."""

    owner: String
    requester: String
    renewers: tuple[String, ...]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


@record(26)
class RemoveDelegationTokenRecord:
    """A delegation token has expired."""

    token_id: String


@record(18)
class AccessControlEntryRecord:
    """An ACL was made (KIP-801)."""

    id: Uuid | None
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@record(19)
class RemoveAccessControlEntryRecord:
    """An ACL was deleted."""

    id: Uuid | None
