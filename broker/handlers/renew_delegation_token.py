"""RenewDelegationToken 1-2 (KIP-48): refused over PLAINTEXT, and no listener speaks anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from broker.network.context import RequestContext
from protocol.errors import UnsupportedByAuthentication

if TYPE_CHECKING:
    from kio.schema.renew_delegation_token.v2 import RenewDelegationTokenRequest


def handle(_ctx: RequestContext, _request: RenewDelegationTokenRequest) -> NoReturn:
    raise UnsupportedByAuthentication
