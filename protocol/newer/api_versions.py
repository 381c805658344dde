"""ApiVersions 5 (KIP-1242): the request may name the cluster and the node that the client means."""

from __future__ import annotations

from typing import Annotated

from kio.schema.api_versions.v4.response import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey

from ..declared import Bool, Int32, Int64, Placed, String
from .declare import ErrorCode, Milliseconds, request, response

NO_NODE = -1


@request(18, 5)
class ApiVersionsRequest:
    client_software_name: String
    client_software_version: String
    cluster_id: String | None = None
    node_id: Int32 = NO_NODE


@response(18, 5, old_header=True)
class ApiVersionsResponse:
    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]
    throttle_time: Milliseconds
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], Placed(tag=0)] = ()
    finalized_features_epoch: Annotated[Int64, Placed(tag=1)] = -1
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], Placed(tag=2)] = ()
    zk_migration_ready: Annotated[Bool, Placed(tag=3)] = False
