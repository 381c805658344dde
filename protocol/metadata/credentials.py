"""Records of who may come in and what they may do: SCRAM credentials, delegation tokens and ACLs."""

from __future__ import annotations

from uuid import UUID

from .message import bytestring, int8, int32, int64, metadata_record, string, string_array, uuid


@metadata_record(11)
class UserScramCredentialRecord:
    """A user's credential of one SCRAM mechanism (KIP-554, KIP-900)."""

    name: str = string()
    mechanism: int = int8()
    salt: bytes = bytestring()
    stored_key: bytes = bytestring()
    server_key: bytes = bytestring()
    iterations: int = int32()


@metadata_record(22)
class RemoveUserScramCredentialRecord:
    """A user has no longer a credential of this mechanism."""

    name: str = string()
    mechanism: int = int8()


@metadata_record(10)
class DelegationTokenRecord:
    """A delegation token was made or renewed; times are in milliseconds (KIP-48, KIP-900)."""

    owner: str = string()
    requester: str = string()
    renewers: tuple[str, ...] = string_array()
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


@metadata_record(26)
class RemoveDelegationTokenRecord:
    """A delegation token has expired."""

    token_id: str = string()


@metadata_record(18)
class AccessControlEntryRecord:
    """An ACL was made (KIP-801)."""

    id: UUID | None = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@metadata_record(19)
class RemoveAccessControlEntryRecord:
    """An ACL was deleted."""

    id: UUID | None = uuid()
