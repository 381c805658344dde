"""What the requests of share groups have in common."""

from __future__ import annotations

from typing import Protocol

from broker.request_context import RequestContext
from coordinator.group.share.heartbeat import LONGEST_MEMBER_ID
from protocol.errors import InvalidRequest, UnsupportedVersion


class ShareRequest(Protocol):
    """A request of a member to the leader of partitions."""

    @property
    def group_id(self) -> str | None: ...

    @property
    def member_id(self) -> str | None: ...


def require_share_groups(ctx: RequestContext) -> None:
    """Raises UnsupportedVersion unless the cluster has share groups (the feature share.version)."""
    if not ctx.image.features.get("share.version", 0):
        raise UnsupportedVersion


def group_and_member(request: ShareRequest) -> tuple[str, str]:
    """Both, which must be set; a member id has 1 to 36 characters. Raises InvalidRequest, without a text."""
    if request.group_id is None or request.member_id is None:
        raise InvalidRequest
    if not 0 < len(request.member_id) <= LONGEST_MEMBER_ID:
        raise InvalidRequest
    return request.group_id, request.member_id
