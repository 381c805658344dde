"""What the requests of streams groups have in common."""

from __future__ import annotations

from broker.request_context import RequestContext
from protocol.errors import UnsupportedVersion


def require_streams_groups(ctx: RequestContext) -> None:
    """Raises UnsupportedVersion unless the cluster has streams groups (streams.version), and the broker offers them."""
    offered = "streams" in ctx.local.config.list_("group.coordinator.rebalance.protocols")
    if not offered or not ctx.image.features.get("streams.version", 0):
        raise UnsupportedVersion
