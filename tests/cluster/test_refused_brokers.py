"""Brokers that do not belong in the cluster they are to join: they end, and say why."""

from __future__ import annotations

import pytest

from odradek import Broker
from odradek.process import BrokerStartError
from tests.cluster.kafka_controllers import KafkaControllers


def refusal(settings: dict[str, object]) -> str:
    with pytest.raises(BrokerStartError) as refused, Broker(settings, start_timeout=90):
        pass
    return str(refused.value)


def test_another_cluster_and_a_cluster_that_is_not_named(controllers: KafkaControllers) -> None:
    settings = controllers.broker_settings(1)
    assert "another cluster than AAAAAAAAAAAAAAAAAAAAAA" in refusal(
        settings | {"odradek.cluster.id": "AAAAAAAAAAAAAAAAAAAAAA"}
    )
    del settings["odradek.cluster.id"]
    assert "odradek format --cluster-id" in refusal(settings)


def test_no_controller_answers(controllers: KafkaControllers) -> None:
    settings = controllers.broker_settings(1)
    settings |= {"controller.quorum.voters": "3000@127.0.0.1:1", "initial.broker.registration.timeout.ms": 2000}
    assert "no controller has answered within 2000 ms: no connection to 127.0.0.1:1" in refusal(settings)


def test_a_node_id_that_another_broker_has(controllers: KafkaControllers) -> None:
    with Broker(controllers.broker_settings(7), start_timeout=90):
        said = refusal(controllers.broker_settings(7) | {"initial.broker.registration.timeout.ms": 3000})
    assert "another run of this node id is still alive" in said
