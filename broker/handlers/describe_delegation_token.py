"""DescribeDelegationToken 1-3 (KIP-48): refused over PLAINTEXT, and no listener speaks anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from broker.network.context import RequestContext
from protocol.errors import UnsupportedByAuthentication

if TYPE_CHECKING:
    from kio.schema.describe_delegation_token.v3 import DescribeDelegationTokenRequest


def handle(_ctx: RequestContext, _request: DescribeDelegationTokenRequest) -> NoReturn:
    raise UnsupportedByAuthentication
