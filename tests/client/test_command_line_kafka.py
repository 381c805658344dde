"""The same commands against Odradek and Apache Kafka: the same output, but for ids, addresses and wording."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.brokers import sound_broker
from tests.client import kafka_node
from tests.client.group_commands import share_transcript, streams_transcript
from tests.client.kafka_node import KafkaNode
from tests.command_line import Odradek

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SHARE_STATE = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
RULE = ("--principal", "User:app")
COMMANDS: Sequence[tuple[str, Sequence[str]]] = [
    ("", ("topics", "create", "orders", "prices", "-p", "2", "-r", "1", "-c", "retention.ms=86400000")),
    ("", ("topics", "create", "orders")),
    ("", ("topics", "create", "too/odd")),
    ("", ("topics", "create", "planned", "--dry-run", "-p", "1", "-r", "1")),
    ("", ("topics", "list")),
    ("", ("topics", "alter", "orders", "-p", "3", "-c", "max.message.bytes=5000", "--unset", "retention.ms")),
    ("", ("topics", "alter", "orders", "-c", "nonsense=1")),
    ("", ("topics", "alter", "orders", "-p", "1")),
    ("a:1\nb:2\n", ("produce", "orders", "-K", ":", "-p", "0", "-H", "kind=x")),
    ("", ("produce", "orders", "-k", "gone", "--tombstone", "-p", "1")),
    ("", ("produce", "nowhere", "x")),
    ("", ("consume", "orders", "-e", "-p", "0", "-f", "%p/%o %k=%v %h\\n")),
    ("", ("consume", "orders", "-e", "-p", "0", "-o", "1")),
    ("", ("consume", "nowhere", "-e")),
    ("", ("consume", "orders", "-g", "readers", "-n", "3", "-f", "%k\\n")),
    ("", ("groups", "list")),
    ("", ("groups", "describe", "readers", "nobody")),
    ("", ("groups", "reset-offsets", "readers", "--to", "start", "--dry-run")),
    ("", ("groups", "reset-offsets", "readers", "--by", "-1", "-t", "orders:0")),
    ("", ("groups", "describe", "readers", "--json")),
    ("", ("groups", "--reset-offsets", "--group", "readers", "--to-latest", "--topic", "orders:0")),
    ("", ("groups", "delete-offsets", "readers", "-t", "orders:0")),
    ("", ("groups", "delete-offsets", "nobody", "-t", "orders:0")),
    ("", ("groups", "describe")),
    ("", ("consume", "orders", "-e", "-p", "0", "-o", "-1")),
    ("", ("topics", "create", "orders", "--if-not-exists")),
    ("", ("topics", "delete", "nowhere", "--if-exists")),
    ("", ("topics", "trim", "orders", "--to", "1", "-p", "0")),
    ("", ("topics", "trim", "orders", "--to", "9", "-p", "0")),
    ("", ("topics", "describe", "orders")),
    ("", ("topics", "describe", "nowhere")),
    ("", ("groups", "delete", "readers", "nobody")),
    ("", ("acls", "add", *RULE, "--operation", "read", "--topic", "orders", "--group", "readers")),
    ("", ("acls", "add", *RULE, "--operation", "write", "--topic", "or", "--prefixed", "--deny", "--host", "10.0.0.1")),
    ("", ("acls", "add", *RULE, "--operation", "cluster-action", "--cluster")),
    ("", ("acls", "list")),
    ("", ("acls", "remove", *RULE, "--operation", "read")),
    ("", ("acls", "list", "--json")),
    ("secret\n", ("users", "add", "bob")),
    ("", ("users", "list")),
    ("", ("users", "delete", "bob")),
    ("", ("users", "delete", "bob", "-m", "SCRAM-SHA-256")),
    ("", ("quotas", "set", "producer_byte_rate=1000", "request_percentage=50", "--user", "bob")),
    ("", ("quotas", "set", "consumer_byte_rate=5000000", "--client-id", "<default>")),
    ("", ("quotas", "set", "nonsense=5", "--user", "bob")),
    ("", ("quotas", "list")),
    ("", ("quotas", "remove", "request_percentage", "--user", "bob")),
    ("", ("reassign", "start", "orders:0=1", "prices=7")),
    ("", ("reassign", "list")),
    ("", ("reassign", "cancel", "prices")),
    ("", ("transactions", "list")),
    ("", ("transactions", "describe", "payer")),
    ("", ("transactions", "describe", "nobody")),
    ("", ("transactions", "abort", "payer")),
    ("", ("transactions", "abort", "nobody")),
    ("", ("consume", "prices", "-e")),
    ("", ("configs", "set", "--all", "log.retention.ms=60000", "log.retention.hours=7")),
    ("", ("configs", "set", "--all", "log.retention.ms=soon")),
    ("", ("configs", "set", "--broker", "1", "log.cleaner.threads=2", "--dry-run")),
    ("", ("configs", "set", "--broker", "1", "log.dirs=/elsewhere")),
    ("", ("configs", "set", "--broker", "1", "--loggers", "no.such.logger=DEBUG")),
    ("", ("configs", "list", "log.retention.ms", "log.cleaner.threads")),
    ("", ("configs", "unset", "--all", "log.retention.ms")),
    ("", ("configs", "list", "log.retention.ms", "--broker", "1", "--json")),
    ("", ("client-metrics", "set", "all", "--metrics", "*", "--interval", "30s", "--match", "client_id=a.*")),
    ("", ("client-metrics", "set", "all", "--match", "colour=x")),
    ("", ("client-metrics", "list")),
    ("", ("client-metrics", "delete", "all", "none")),
    ("", ("client-metrics", "list", "--json")),
    ("", ("cluster", "log-dirs", "--topic", "prices", "--partitions")),
    ("", ("cluster", "features", "downgrade", "streams.version=0")),
    ("", ("cluster", "features", "upgrade", "streams.version=1")),
    ("", ("cluster", "features", "upgrade", "no.such=1")),
    ("", ("cluster", "unregister", "7")),
    ("", ("elect", "preferred")),
    ("", ("elect", "preferred", "orders:0", "orders:9")),
    ("", ("tokens", "list")),
    ("", ("tokens", "create")),
    ("", ("topics", "delete", "orders", "nowhere")),
]


def alike(text: str) -> str:
    """Output without what may differ: ids, ages, and the sentence behind the name of an error."""
    text = re.sub(r"  id \S+", "  id ID", text)
    text = re.sub(r"^(1  ) +/\S+ +(prices-\d) .*$", r"\1\2", text, flags=re.MULTILINE)  # sizes and folders
    text = re.sub("LOG-DIR +", "LOG-DIR ", text)
    text = re.sub(r"([A-Z]{2,}_[A-Z_]+)(: [^()\n]*)", r"\1", text)
    return re.sub(r"(payer\s+\w+)\s.*?(prices-0|-)\s+1\n", r"\1 \2\n", text)


def transcript(odradek: Odradek) -> list[str]:
    """What each command prints, with an open transaction of `payer`."""
    found = []
    for stdin, command in COMMANDS:
        if command[:2] == ("transactions", "list"):
            producer = Producer({"bootstrap.servers": odradek.bootstrap, "transactional.id": "payer", "log_level": 0})
            producer.init_transactions(60)
            producer.begin_transaction()
            producer.produce("prices", b"never", partition=0)
            producer.flush(60)
        status, out, error = odradek.run(*command, stdin=stdin)
        if "-g" in command:  # partitions come in any order
            out = "".join(sorted(out.splitlines(keepends=True)))
        found.append(f"$ {' '.join(command)}\n{alike(out + error)}-> {status}")
    return found


@pytest.mark.torture
@pytest.mark.skipif(bool(kafka_node.missing()), reason=str(kafka_node.missing()))
def test_each_command_prints_the_same_for_kafka(tmp_path: Path) -> None:
    with sound_broker(AUTHORIZED) as broker:
        ours = transcript(Odradek(broker.bootstrap_servers))
    with kafka(tmp_path, AUTHORIZED) as theirs:
        assert "\n".join(ours) == "\n".join(transcript(theirs))


@pytest.mark.torture
@pytest.mark.skipif(bool(kafka_node.missing()), reason=str(kafka_node.missing()))
def test_share_and_streams_groups_are_the_same_for_kafka(tmp_path: Path) -> None:
    with sound_broker() as broker:
        odradek = Odradek(broker.bootstrap_servers)
        of_streams = streams_transcript(odradek, tmp_path)
        ours = share_transcript(odradek) + of_streams
    members, listed, planned, reset, after, *_ = of_streams
    tasks = [f'"{subtopology}_{partition}"' for subtopology in (0, 1) for partition in (0, 1)]
    assert all(task in members for task in tasks) and '"active": [' in members
    assert "streams  Empty  streams\n" in listed
    assert planned.splitlines()[1:] == reset.splitlines()[1:], "a dry run shows what would be"
    assert [line.split()[-1] for line in reset.splitlines()[2:4]] == ["0", "0"] and '"committed": 0' in after
    with kafka(tmp_path, SHARE_STATE) as odradek:
        assert "\n".join(ours) == "\n".join(share_transcript(odradek) + streams_transcript(odradek, tmp_path))


@contextmanager
def kafka(folder: Path, settings: Mapping[str, str]) -> Iterator[Odradek]:
    """Our commands for a Kafka that runs as long as this does."""
    node = KafkaNode(folder / "kafka", settings=settings)
    node.format()
    node.start()
    try:
        yield Odradek(node.bootstrap)
    finally:
        node.stop()
