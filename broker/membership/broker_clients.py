"""The other brokers of the cluster, each at the address that the image has of it now."""

from __future__ import annotations

from broker.membership.metadata_cache import MetadataCache, endpoint_of
from broker.peers.client import PeerClient, PeerClients


class BrokerClients:
    """Clients of other brokers, by the listener that brokers use among themselves."""

    def __init__(self, cache: MetadataCache, listener_name: str, clients: PeerClients) -> None:
        self._cache = cache
        self._listener_name = listener_name
        self._clients = clients

    def reach(self, node_id: int) -> PeerClient | None:
        """The client of a broker; None if it is fenced, or unknown."""
        endpoint = endpoint_of(self._cache.image, node_id, self._listener_name)
        return None if endpoint is None else self._clients.of(endpoint.host, endpoint.port)

    def close(self) -> None:
        """End all connections; what is in flight fails."""
        self._clients.close()
