"""The broker that kafka-python begins with is the one that has answered."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import patch

import pytest

from odradek.cli.connection import Cluster

V4, V6 = SimpleNamespace(host="127.0.0.1", port=9092), SimpleNamespace(host="2001:db8::5", port=9093)


@pytest.mark.parametrize(
    ("controller", "nodes", "address"),
    [(V4, [V6], "127.0.0.1:9092"), (V6, [V4], "[2001:db8::5]:9093"), (None, [V6], "[2001:db8::5]:9093")],
)
def test_an_ipv6_address_has_brackets_and_a_cluster_without_a_controller_is_asked_by_any_broker(
    controller: SimpleNamespace | None, nodes: list[SimpleNamespace], address: str
) -> None:
    reached = None, SimpleNamespace(controller=controller, nodes=nodes)
    with patch.object(Cluster, "_reached", reached):
        config = Cluster({"bootstrap.servers": "localhost:9092"}, 5).python_config()
    assert config["bootstrap_servers"] == [address]
