"""Which versions of its APIs another node serves, asked once a connection."""

from __future__ import annotations

from broker.peers.call import entity_call
from broker.peers.client import VersionRanges
from broker.peers.connection import PeerConnection
from broker.peers.errors import PeerDisconnectedError

CLIENT_SOFTWARE = "odradek"


async def ask_versions(connection: PeerConnection, timeout_ms: float = 30_000) -> VersionRanges:
    """The answer of ApiVersions; for `PeerClient`'s `prepare`. Raises PeerError."""
    from kio.schema.api_versions.v3 import ApiVersionsRequest
    from kio.schema.errors import ErrorCode

    request = ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE, client_software_version="1")
    call = entity_call(request)
    response = await connection.send(call, call.highest, timeout_ms)
    if response.error_code is not ErrorCode.none:
        raise PeerDisconnectedError(f"{connection.address} refused ApiVersions: {response.error_code.name}")
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
