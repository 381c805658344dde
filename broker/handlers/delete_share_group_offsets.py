"""DeleteShareGroupOffsets 0 (KIP-932): refused, as Kafka does while `share.version` is 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from broker.network.context import RequestContext
from protocol.errors import UnsupportedVersion

if TYPE_CHECKING:
    from kio.schema.delete_share_group_offsets.v0 import DeleteShareGroupOffsetsRequest


def handle(_ctx: RequestContext, _request: DeleteShareGroupOffsetsRequest) -> NoReturn:
    raise UnsupportedVersion
