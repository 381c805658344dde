"""Ask a real Apache Kafka everything in `tests/conformance/authorization` as every user, and keep its answers.

Run by hand from the repository's root: `python -m tools.recorders.ask_kafka_authorization`. It starts a node of the
newest Kafka that `tests/client/kafka_node.py` finds, on loopback, and stops it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from tests.client.kafka_node import KafkaNode, free_ports
from tests.conformance.authorization.every import matrix, record
from tests.conformance.authorization.world import SETTINGS, World


@click.command()
def main() -> None:
    plain, sasl, controller = free_ports(3)
    settings = SETTINGS | {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    with tempfile.TemporaryDirectory() as name:
        node = KafkaNode(Path(name) / "data", settings=settings)
        node.bootstrap = f"127.0.0.1:{plain}"
        node.format()
        node.start()
        try:
            world = World(sasl)
            world.make()
            answers = matrix(world)
            record(answers)
            click.echo(f"{len(answers)} questions, {sum(map(len, answers.values()))} answers")
        finally:
            node.stop()


if __name__ == "__main__":
    main()
