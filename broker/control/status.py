"""What the broker is and where it listens."""

from __future__ import annotations

import os
from typing import Any

from broker.control.endpoint import Endpoint, Values
from broker.node import Node


def _status(node: Node, _values: Values) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "cluster_id": node.cluster.id,
        "pid": os.getpid(),
        "listeners": {name: f"{listener.host}:{listener.port}" for name, listener in node.bound.advertised.items()},
        "not_ready": node.state.not_ready,
        "problems": node.state.problems(),
    }


ENDPOINTS = (Endpoint("GET", "/status", "The broker's identity, listeners and health.", _status),)
