"""Requests to a group's coordinator that the client libraries have no method for."""

from __future__ import annotations

from typing import Any

from kafka import errors as kafka_errors

from odradek.cli.connection import Cluster


def ask_coordinator(cluster: Cluster, group: str, request: Any) -> Any:
    """The answer of the group's coordinator. Raises KafkaException, KafkaError."""
    with cluster.python_admin() as admin:
        coordinator = admin._manager.run(admin._find_coordinator_id, group)
        return admin._manager.run(admin._manager.send, request, coordinator)


def require_no_error(answer: Any) -> None:
    """Raises KafkaError if an answer, or a part of one, has an error."""
    if answer.error_code:
        raise kafka_errors.for_code(answer.error_code)(answer.error_message or "")
