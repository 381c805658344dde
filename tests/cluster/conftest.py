"""Clusters of Apache Kafka's controllers and our brokers; skipped with a reason where there is no Java or no Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from odradek import Broker
from tests.client import kafka_node
from tests.cluster.kafka_controllers import KafkaControllers

NODES = (1, 2, 3)


@pytest.fixture(scope="session", autouse=True)
def kafka() -> None:
    reason = kafka_node.missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def controllers(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaControllers]:
    """One controller."""
    with KafkaControllers(tmp_path_factory.mktemp("controllers")) as running:
        yield running


def in_rack(node_id: int) -> dict[str, object]:
    """Settings by which each broker is in a rack of its own, and sends consumers to the replica in theirs."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    return {"broker.rack": f"rack-{node_id}", "replica.selector.class": selector}


@contextmanager
def brokers_of(controllers: KafkaControllers) -> Iterator[dict[int, Broker]]:
    """Three brokers, by id, none of which may meet a bug."""
    with ExitStack() as stack:
        found = {
            node_id: stack.enter_context(
                Broker(controllers.broker_settings(node_id) | in_rack(node_id), start_timeout=90)
            )
            for node_id in NODES
        }
        yield found
        for broker in found.values():
            log = broker.log()
            assert "Traceback" not in log, log


@pytest.fixture(scope="module")
def brokers(controllers: KafkaControllers) -> Iterator[dict[int, Broker]]:
    """Three brokers of one controller."""
    with brokers_of(controllers) as found:
        yield found
