"""Requests to a group's coordinator that the client libraries have no method for."""

from __future__ import annotations

from typing import Any

from odradek.cli.connection import Cluster


def ask_coordinator(cluster: Cluster, group: str, request: Any) -> Any:
    """The answer of the group's coordinator. Raises KafkaException, KafkaError."""
    with cluster.python_admin() as admin:
        coordinator = admin._manager.run(admin._find_coordinator_id, group)
        return admin._manager.run(admin._manager.send, request, coordinator)
