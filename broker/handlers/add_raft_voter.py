"""AddRaftVoter 0 (KIP-853): checked, then refused, since `kraft.version` is 0."""

from __future__ import annotations

from typing import NoReturn

from kio.schema.add_raft_voter.v0 import AddRaftVoterRequest
from kio.schema.add_raft_voter.v0.request import Listener

from broker.context import RequestContext
from broker.raft_voters import check_voter, refuse
from protocol.errors import InvalidRequest

CONTROLLER = "CONTROLLER"
"""The listener of a voter's controller; this node has none, and takes the name that everybody gives it."""


def handle(ctx: RequestContext, request: AddRaftVoterRequest) -> NoReturn:
    check_voter(ctx, request.cluster_id, request.voter_id, request.voter_directory_id, "Add")
    endpoints = {listener.name: listener for listener in request.listeners}
    if CONTROLLER not in endpoints:
        told = ", ".join(map(_shown, endpoints.values()))
        raise InvalidRequest(
            f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{told}}})) for the default listener "
            f"ListenerName({CONTROLLER})"
        )
    refuse("adding")


def _shown(listener: Listener) -> str:
    return f"ListenerName({listener.name})={listener.host}/<unresolved>:{listener.port}"
