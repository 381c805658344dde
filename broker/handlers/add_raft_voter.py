"""AddRaftVoter 0 (KIP-853): checked, then refused, since `kraft.version` is 0."""

from __future__ import annotations

from typing import NoReturn

from kio.schema.add_raft_voter.v0 import AddRaftVoterRequest
from kio.schema.add_raft_voter.v0.request import Listener

from broker.cluster.raft_voters import check_voter, refuse
from broker.config.broker_config import split_list
from broker.network.context import RequestContext
from protocol.errors import InvalidRequest
from protocol.java_collections import in_java_order

USUAL_CONTROLLER = "CONTROLLER"
"""The usual name of the controller listener, if none is configured: this node needs none."""


def handle(ctx: RequestContext, request: AddRaftVoterRequest) -> NoReturn:
    check_voter(ctx, request.cluster_id, request.voter_id, request.voter_directory_id, "Add")
    configured = split_list(ctx.node.config.optional_string("controller.listener.names") or "")
    default = configured[0].upper() if configured else USUAL_CONTROLLER
    endpoints = {listener.name.upper(): listener for listener in request.listeners}
    if default not in endpoints:
        text = ", ".join(
            _shown(name, endpoints[name]) for name in in_java_order(list(endpoints), capacity=len(request.listeners))
        )
        raise InvalidRequest(
            f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{text}}})) for the default listener "
            f"ListenerName({default})"
        )
    refuse("adding")


def _shown(name: str, listener: Listener) -> str:
    return f"ListenerName({name})={listener.host}/<unresolved>:{listener.port}"
