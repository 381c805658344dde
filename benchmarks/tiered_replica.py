"""How soon an empty replica of a tiered log is in sync: `python -m benchmarks.tiered_replica --help`.

Two brokers over one folder as remote storage, with a controller of Apache Kafka; beside them two brokers of Apache
Kafka with FolderStorage.java, one cluster after the other. A topic of one partition and one replica is filled and
copied, so that most of it is in remote storage alone. Then the other broker gets a replica. Printed are the seconds
until it is in sync, and the bytes that it has in its folder then. A topic that is not tiered, as large as `--plain-mb`,
shows how long the same takes for what must be copied whole.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.contenders import arguments
from benchmarks.figures import Figures, note, print_table
from tests.client import kafka_node
from tests.cluster import tiering
from tests.cluster.client import until
from tests.cluster.kafka_controllers import KafkaControllers
from tests.cluster.mixed_cluster import AnyBroker, bootstrap, mixed

TIERED, PLAIN = "tiered", "plain"
FIRST, SECOND = 1, 2
VALUE = 10_000
SEGMENT = 20 << 20
MB = 1_000_000
PATIENCE_S = 3600
JVM = ("-Xmx1g",)


@dataclass
class Pair:
    """Two brokers of one kind."""

    name: str
    brokers: dict[int, AnyBroker]
    store: Path


@contextmanager
def running(name: str, ours: int, theirs: int) -> Iterator[Pair]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-bench-")))
        store = folder / "store"
        controllers = stack.enter_context(KafkaControllers(folder, settings=tiering.CONTROLLERS))
        of_java = tiering.java_settings(folder / "classes") if theirs else {}
        settings = tiering.settings(store, replicas=1)
        brokers = stack.enter_context(mixed(controllers, folder, ours, theirs, settings, JVM, of_java))
        yield Pair(name, brokers, store)


def fill(servers: str, topic: str, size: int) -> None:
    """Produce so many bytes, which do not compress."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 20, "log_level": 0})
    value = bytes(range(250)) * (VALUE // 250)
    for number in range(size // VALUE):
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if not number % 100:
            producer.poll(0)
    producer.flush(PATIENCE_S)
    if failed:
        sys.exit(f"{len(failed)} records were refused, such as {failed[0]}")


def in_folder(broker: AnyBroker, topic: str) -> int:
    """The bytes of the topic's segments in a broker's own folder."""
    return sum(path.stat().st_size for path in (broker.folder / f"{topic}-0").glob("*.log"))


def create(admin: AdminClient, topic: str, configs: dict[str, str]) -> None:
    wanted = NewTopic(topic, 1, replica_assignment=[[FIRST]], config={"segment.bytes": str(SEGMENT), **configs})
    admin.create_topics([wanted])[topic].result(60)


def measure(pair: Pair, size: int, local: int, plain: int, rounds: int, figures: Figures) -> None:
    servers = bootstrap(pair.brokers)
    admin = AdminClient({"bootstrap.servers": servers})
    create(admin, TIERED, {**tiering.TIERED, "segment.bytes": str(SEGMENT), "local.retention.bytes": str(local)})
    create(admin, PLAIN, {})
    fill(servers, TIERED, size)
    fill(servers, PLAIN, plain)
    first, second = pair.brokers[FIRST], pair.brokers[SECOND]
    until(lambda: in_folder(first, TIERED) < local + 2 * SEGMENT, "most of it is in remote storage alone", PATIENCE_S)
    for _ in range(rounds):
        found: dict[str, float] = {}
        for topic in (TIERED, PLAIN):
            begun = time.monotonic()
            tiering.place(admin, first.address, topic, [FIRST, SECOND], seconds=PATIENCE_S)
            found[f"{topic}: seconds until in sync"] = time.monotonic() - begun
            found[f"{topic}: MB in the new replica's folder"] = in_folder(second, topic) / MB
            tiering.place(admin, first.address, topic, [FIRST])
            until(lambda name=topic: not (second.folder / f"{name}-0").exists(), "the replica is gone")  # type: ignore[misc]
        note(figures, pair, found)


def main() -> None:
    parser = arguments("python -m benchmarks.tiered_replica", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mb", type=int, default=10_000, help="the tiered topic (default: %(default)s)")
    parser.add_argument("--local-mb", type=int, default=200, help="what stays local of it (default: %(default)s)")
    parser.add_argument("--plain-mb", type=int, default=1_000, help="the other topic (default: %(default)s)")
    options = parser.parse_args()
    if reason := kafka_node.missing():
        sys.exit(f"a cluster needs controllers of Apache Kafka: {reason}")
    figures: Figures = {}
    kinds = [("odradek", 2, 0)] if options.alone else [("odradek", 2, 0), ("kafka", 0, 2)]
    pairs = []
    for kind in kinds:
        with running(*kind) as pair:
            measure(pair, options.mb * MB, options.local_mb * MB, options.plain_mb * MB, options.rounds, figures)
            pairs.append(pair)
    print_table(figures, pairs)


if __name__ == "__main__":
    main()
