"""RemoveRaftVoter 0 (KIP-853): checked, then refused, since `kraft.version` is 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from broker.cluster.raft_voters import check_voter, refuse
from broker.network.context import RequestContext

if TYPE_CHECKING:
    from kio.schema.remove_raft_voter.v0 import RemoveRaftVoterRequest


def handle(ctx: RequestContext, request: RemoveRaftVoterRequest) -> NoReturn:
    check_voter(ctx, request.cluster_id, request.voter_id, request.voter_directory_id, "Remove")
    refuse("removing")
