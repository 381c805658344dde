"""Hold every conversation of `tests/conformance/authentication` with a real Apache Kafka, and keep its answers.

Run by hand from the repository's root: `python -m tools.recorders.ask_kafka_authentication`. It starts a node of the
newest Kafka that `tests/client/kafka_node.py` finds, on loopback, and stops it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from tests.client.kafka_node import KafkaNode, free_ports
from tests.conformance.authentication.every import CONVERSATIONS, record, recorded
from tests.conformance.authentication.settings import LISTENERS, Certificates, add_scram_users
from tests.conformance.authentication.talk import play


@click.command()
@click.option("--only", default="", help="Part of a conversation's name; the others stay as they are.")
def main(only: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificates = Certificates(folder)
        ports = dict(zip(("PLAINTEXT", *LISTENERS), free_ports(1 + len(LISTENERS)), strict=True))
        node = KafkaNode(folder / "data", settings=_settings(certificates, ports))
        node.bootstrap = f"127.0.0.1:{ports['PLAINTEXT']}"
        node.format()
        node.start()
        try:
            add_scram_users(node.bootstrap)
            kept = recorded() if only else {}
            for title, conversation in CONVERSATIONS.items():
                if only in title:
                    kept[title] = play(conversation, ports, certificates)
            record(kept)
            click.echo(f"{len(kept)} conversations, {sum(map(len, kept.values()))} answers")
        finally:
            node.stop()


def _settings(certificates: Certificates, ports: dict[str, int]) -> dict[str, str]:
    """Those of the test, and the addresses beside the controller's."""
    controller = free_ports(1)[0]
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in {**ports, "CONTROLLER": controller}.items())
    return certificates.settings() | {
        "listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "inter.broker.listener.name": "PLAINTEXT",
    }


if __name__ == "__main__":
    main()
