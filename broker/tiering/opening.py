"""Opens the tiered storage of a node at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.tiering.tier_manager import TierManager
from protocol.remote_storage.store import RemoteStoreError
from storage.folders.log_dirs import LogDirError

if TYPE_CHECKING:
    from broker.coordinators.hosted import Host


async def open_tier(host: Host) -> TierManager:
    """The tiered storage of a node. Raises LogDirError, for people, if its settings are wrong or its store unusable."""
    manager = TierManager(host)
    try:
        await host.replicas.logs.services.workers.lane("remote reads").call(manager.store.check)
    except RemoteStoreError as error:
        raise LogDirError(f"remote storage cannot be used: {error}") from error
    return manager
