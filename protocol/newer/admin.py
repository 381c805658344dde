"""Rare requests: DeleteGroups 3, whose answer has a message for each group; UnregisterController 0 (KIP-1312), whose
error is a plain number, as kio has no name for the newest code; and what Kafka has not: Explain 0, why nothing is read,
of a group, a topic or a transactional id, and CreateBackup 0, a consistent copy of the node in a folder of its machine.
"""

from __future__ import annotations

from ..declared import Int16, Int32, Int64, String
from .declare import ErrorCode, Milliseconds, request, response

# -- DeleteGroups


@request(42, 3)
class DeleteGroupsRequest:
    groups_names: tuple[String, ...]


@response(42, 3, nested=True)
class DeletableGroupResult:
    group_id: String
    error_code: ErrorCode
    error_message: String | None = None


@response(42, 3)
class DeleteGroupsResponse:
    throttle_time: Milliseconds
    results: tuple[DeletableGroupResult, ...]


# -- UnregisterController


@request(94, 0)
class UnregisterControllerRequest:
    controller_id: Int32


@response(94, 0)
class UnregisterControllerResponse:
    throttle_time: Milliseconds
    error_code: Int16
    error_message: String | None


# -- Explain


@request(31001, 0)
class ExplainRequest:
    """`kind` is group, topic or transaction."""

    kind: String
    name: String


@response(31001, 0, nested=True)
class ExplainFinding:
    severity: String
    rule: String
    text: String
    advice: String


@response(31001, 0)
class ExplainResponse:
    throttle_time: Milliseconds
    error_code: ErrorCode
    error_message: String | None = None
    findings: tuple[ExplainFinding, ...] = ()


# -- CreateBackup


@request(31002, 0)
class CreateBackupRequest:
    """`path` is relative to `odradek.backup.folder`, or the whole path."""

    path: String


@response(31002, 0)
class CreateBackupResponse:
    throttle_time: Milliseconds
    error_code: ErrorCode
    error_message: String | None = None
    path: String = ""
    size: Int64 = 0
