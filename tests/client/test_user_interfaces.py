"""The calls that the pages of kafbat UI and AKHQ make, by Kafka's Java client: the same answers as from Apache Kafka.

The interfaces themselves are programs that neither Maven Central nor npm has.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.brokers import sound_broker
from tests.client import kafka_node
from tests.client.java_tools import compiled
from tests.client.kafka_node import KafkaNode

SOURCE = Path(__file__).parent / "java" / "AdminCalls.java"


def calls(bootstrap: str) -> list[str]:
    """What the program prints."""
    run = subprocess.run([*compiled(SOURCE), bootstrap], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.torture
@pytest.mark.usefixtures("own_cluster", "java_tool")
@pytest.mark.skipif(bool(kafka_node.missing()), reason=str(kafka_node.missing()))
def test_pages_get_the_same_answers_as_from_kafka(tmp_path: Path) -> None:
    with sound_broker() as broker:
        ours = calls(broker.bootstrap_servers)
    node = KafkaNode(tmp_path / "kafka")
    node.format()
    node.start()
    try:
        theirs = calls(node.bootstrap)
    finally:
        node.stop()
    assert len(ours) == 34
    assert ours == theirs
