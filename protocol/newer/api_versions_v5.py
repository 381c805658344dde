"""ApiVersions 5 (KIP-1242): the request may name the cluster and the node that the client means."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.api_versions.v4.response import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey
from kio.schema.errors import ErrorCode

from .declare import of, request, response, tagged

NO_NODE = -1


@request(18, 5)
class ApiVersionsRequest:
    client_software_name: str = of("string")
    client_software_version: str = of("string")
    cluster_id: str | None = of("string", default=None)
    node_id: int = of("int32", default=NO_NODE)


@response(18, 5, old_header=True)
class ApiVersionsResponse:
    error_code: ErrorCode = of("error_code")
    api_keys: tuple[ApiVersion, ...]
    throttle_time: timedelta = of("timedelta_i32")
    supported_features: tuple[SupportedFeatureKey, ...] = tagged(0, None, default=())
    finalized_features_epoch: int = tagged(1, "int64", default=-1)
    finalized_features: tuple[FinalizedFeatureKey, ...] = tagged(2, None, default=())
    zk_migration_ready: bool = tagged(3, "bool", default=False)


REQUEST, RESPONSE = ApiVersionsRequest, ApiVersionsResponse
