"""The APIs that are always refused, each with the answer of a Kafka that lacks the same.

SASL is spoken before a client is known, and not here (KIP-43, KIP-152). The voters of the metadata do not change, since
a controller of ours is the only one (KIP-853). No plugin keeps descriptions of topologies (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn
from uuid import UUID

from broker.config.broker_config import split_list
from broker.request_context import RequestContext
from protocol.errors import (
    IllegalSaslState,
    InconsistentClusterId,
    InvalidRequest,
    KafkaError,
    UnsupportedVersion,
)

Check = Callable[[RequestContext, Any], None]
"""Raises if a request gets another error than its API's."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An API that is always refused with this error, unless `check` raises another one."""

    error: Callable[[], KafkaError]
    check: Check | None = None

    def handle(self, ctx: RequestContext, request: Any) -> NoReturn:
        if self.check is not None:
            self.check(ctx, request)
        raise self.error()


def _check_new_voter(ctx: RequestContext, request: Any) -> None:
    """Raises what `_check_voter` does, and InvalidRequest without an endpoint for controllers."""
    _check_voter(ctx, request.cluster_id, request.voter_id, request.voter_directory_id, "Add")
    configured = split_list(ctx.local.config.optional_string("controller.listener.names") or "")
    default = configured[0].upper() if configured else "CONTROLLER"
    if default not in {listener.name.upper() for listener in request.listeners}:
        raise InvalidRequest(f"The request has no endpoint for the controller listener {default}.")
    _refuse_voters("adding")


def _check_leaving_voter(ctx: RequestContext, request: Any) -> None:
    _check_voter(ctx, request.cluster_id, request.voter_id, request.voter_directory_id, "Remove")
    _refuse_voters("removing")


REFUSALS: Mapping[str, Refusal] = MappingProxyType(
    {
        "sasl_handshake": Refusal(IllegalSaslState),
        "sasl_authenticate": Refusal(partial(IllegalSaslState, "This listener asks for no authentication.")),
        "add_raft_voter": Refusal(UnsupportedVersion, check=_check_new_voter),
        "remove_raft_voter": Refusal(UnsupportedVersion, check=_check_leaving_voter),
        "streams_group_topology_description_update": Refusal(
            partial(UnsupportedVersion, "This broker keeps no descriptions of topologies.")
        ),
    }
)


def _check_voter(
    ctx: RequestContext, cluster_id: str | None, voter_id: int, directory_id: UUID | None, request: str
) -> None:
    """Raises InconsistentClusterId, and InvalidRequest for an invalid voter."""
    ours = ctx.cluster.id
    if cluster_id is not None and cluster_id != ours:
        raise InconsistentClusterId(f'The given id "{cluster_id}" doesn\'t match the cluster id "{ours}"')
    if voter_id < 0 or directory_id is None:
        raise InvalidRequest(f"{request} voter request didn't include a valid voter")


def _refuse_voters(doing: str) -> NoReturn:
    raise UnsupportedVersion(f"Cluster doesn't support {doing} voter: the controller of this cluster is the only one.")
