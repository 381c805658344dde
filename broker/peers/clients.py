"""Clients of several nodes, one for each address."""

from __future__ import annotations

from broker.peers.client import PeerClient, PeerNetwork, PeerSettings, Prepare

INSPECTION_CLIENT_ID = "odradek-inspection"
"""The client id of the questions of brokers about each other. No fault strikes them, and no journal shows them: whoever
looks at a cluster must not change what is seen."""


class PeerClients:
    """Makes a client when its address is first asked for, and keeps it until the end."""

    def __init__(self, settings: PeerSettings, network: PeerNetwork, prepare: Prepare | None = None) -> None:
        self._settings = settings
        self._network = network
        self._prepare = prepare
        self._by_address: dict[tuple[str, int], PeerClient] = {}
        self._closed = False

    def of(self, host: str, port: int) -> PeerClient:
        client = self._by_address.get((host, port))
        if client is None:
            client = PeerClient(host, port, self._settings, self._network, self._prepare)
            self._by_address[host, port] = client
            if self._closed:
                client.close()
        return client

    def keep_only(self, host: str, port: int) -> None:
        """Close the connections to all other addresses: what is in flight there fails."""
        for address in [known for known in self._by_address if known != (host, port)]:
            self._by_address.pop(address).close()

    def close(self) -> None:
        """End all connections for good, those of later clients too."""
        self._closed = True
        for client in self._by_address.values():
            client.close()
