"""AlterShareGroupOffsets 0 (KIP-932): refused, as Kafka does while `share.version` is 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from broker.network.context import RequestContext
from protocol.errors import UnsupportedVersion

if TYPE_CHECKING:
    from kio.schema.alter_share_group_offsets.v0 import AlterShareGroupOffsetsRequest


def handle(_ctx: RequestContext, _request: AlterShareGroupOffsetsRequest) -> NoReturn:
    raise UnsupportedVersion
