"""Changes of the metadata's voters (KIP-853; Kafka's `KafkaRaftClient`), which `kraft.version` 0 does not allow."""

from __future__ import annotations

from typing import NoReturn
from uuid import UUID

from broker.network.context import RequestContext
from protocol.errors import InconsistentClusterId, InvalidRequest, UnsupportedVersion


def check_voter(
    ctx: RequestContext, cluster_id: str | None, voter_id: int, directory_id: UUID | None, request: str
) -> None:
    """Raises InconsistentClusterId, and InvalidRequest for an invalid voter."""
    ours = ctx.node.cluster_id
    if cluster_id is not None and cluster_id != ours:
        raise InconsistentClusterId(f'The given id "{cluster_id}" doesn\'t match the cluster id "{ours}"')
    if voter_id < 0 or directory_id is None:
        raise InvalidRequest(f"{request} voter request didn't include a valid voter")


def refuse(doing: str) -> NoReturn:
    raise UnsupportedVersion(f"Cluster doesn't support {doing} voter because the kraft.version feature is 0")
