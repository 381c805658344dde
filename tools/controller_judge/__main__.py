"""The same random lives of a cluster to Apache Kafka's controller and to ours; prints where they differ.

python -m tools.controller_judge --kafka 127.0.0.1:19093 --kafka-id CLUSTER_ID --ours 127.0.0.1:9093 \
    --ours-id CLUSTER_ID --seeds 0-20 --steps 60

Both controllers must have `broker.session.timeout.ms` as `--session`, in seconds. Start Kafka's with
`peers/kafka/kafka controllers 19093 1 "" broker.session.timeout.ms=1500`. A difference ends its seed.
"""

from __future__ import annotations

from typing import Any

import click

from tools.controller_judge.script import Script, brokers_of, topics_of
from tools.controller_judge.side import ControllerSide
from tools.controller_judge.told import Told

SAID, IMAGE = "said", "image"


def state(side: Told, seed: int) -> dict[str, Any]:
    """What can be compared of an image."""
    found: dict[str, Any] = {}
    for broker_id in brokers_of(seed):
        broker = side.image.cluster.brokers.get(broker_id)
        if broker is not None:
            found[f"broker {broker_id}"] = (broker.fenced, broker.in_controlled_shutdown, broker.directories)
    for name in topics_of(seed):
        topic = side.image.topics.get(name)
        for index, partition in () if topic is None else topic.in_order():
            found[f"{name}-{index}"] = {
                key: getattr(partition, key) for key in partition.__slots__ if key not in ("elr", "isr")
            } | {"elr": sorted(partition.elr), "isr": sorted(partition.isr)}
    return found


def run(sides: list[Told], seed: int, steps: int, session_s: float) -> bool:
    """Whether both said the same all along."""
    for side in sides:
        side.image = side.side.image()
    script = Script(sides, seed, session_s)
    script.begin()
    told: list[str] = []
    for _ in range(steps):
        text, said = script.step()
        told.append(text)
        if any(side.side.elections > 1 for side in sides):
            click.echo(f"seed {seed}, step {len(told)}: a controller gave up its leadership: {' | '.join(told[-4:])}")
            return False
        states = [state(side, seed) for side in sides]
        if said[0] != said[-1] or states[0] != states[-1]:
            click.echo(f"seed {seed}, step {len(told)}: {text}")
            for side, answer, image in zip(sides, said, states, strict=True):
                click.echo(f"  {side.side.name:6} said {answer}")
                for key, value in image.items():
                    if any(other.get(key) != value for other in states):
                        click.echo(f"  {side.side.name:6} has {key} {value}")
            click.echo("  after: " + " | ".join(told[-6:-1]))
            return False
    return True


@click.command()
@click.option("--kafka", required=True)
@click.option("--kafka-id", required=True)
@click.option("--ours", required=True)
@click.option("--ours-id", required=True)
@click.option("--seeds", default="0-5", show_default=True)
@click.option("--steps", default=60, show_default=True)
@click.option("--session", default=1.5, show_default=True)
def main(kafka: str, kafka_id: str, ours: str, ours_id: str, seeds: str, steps: int, session: float) -> None:
    """Compare the controllers for these seeds."""
    sides = [Told(ControllerSide("kafka", kafka), kafka_id), Told(ControllerSide("ours", ours), ours_id)]
    first, _, last = seeds.partition("-")
    same = 0
    for seed in range(int(first), int(last or first) + 1):
        same += run(sides, seed, steps, session)
    click.echo(f"{same} seeds without a difference")


if __name__ == "__main__":
    main()
