"""The commands of `odradek` that are clients, against a broker of ours (`test_command_line_kafka.py`: and Kafka)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek import Broker
from odradek.cli import document
from tests.brokers import sound_broker
from tests.command_line import Odradek

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def authorized_broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker(AUTHORIZED) as broker:
        yield broker


@pytest.fixture
def odradek(authorized_broker: Broker) -> Odradek:
    return Odradek(authorized_broker.bootstrap_servers)


def test_a_topic_from_its_creation_to_its_end(odradek: Odradek) -> None:
    assert odradek.told("topics", "create", "life", "-p", "2", "-c", "retention.ms=5000") == "topic life: created\n"
    status, _, error = odradek.run("topics", "create", "life")
    assert (status, "TOPIC_ALREADY_EXISTS" in error) == (1, True)
    odradek.told("topics", "alter", "life", "-p", "3", "-c", "max.message.bytes=2000", "--unset", "retention.ms")
    (found,) = odradek.json("topics", "describe", "life")
    assert found["configs"] == {"max.message.bytes": "2000"}
    assert [one["partition"] for one in found["partitions"]] == [0, 1, 2]
    odradek.told("produce", "life", "a", "b", "c", "-p", "1")
    assert odradek.told("topics", "trim", "life", "--to", "2", "-p", "1") == "partition life-1: begins at 2\n"
    assert odradek.told("consume", "life", "-e") == "c\n"
    assert "life" in odradek.told("topics", "list")
    odradek.told("topics", "delete", "life")
    assert [one for one in odradek.json("topics", "list") if one["topic"] == "life"] == []


def test_one_refused_topic_does_not_keep_the_others(odradek: Odradek) -> None:
    odradek.told("topics", "create", "first")
    status, out, _ = odradek.run("topics", "create", "first", "second", "--json")
    assert status == 1
    results = {one["topic"]: one.get("error", one.get("result")) for one in json.loads(out)}
    assert results == {"first": "TOPIC_ALREADY_EXISTS", "second": "created"}


def test_one_topic_that_is_not_there_does_not_hide_the_others(odradek: Odradek) -> None:
    odradek.told("topics", "create", "there", "-p", "1")
    status, out, error = odradek.run("topics", "describe", "gone", "there", "--json")
    there, gone = json.loads(out)
    assert (status, there["topic"], gone["topic"], gone["error"]) == (1, "there", "gone", "UNKNOWN_TOPIC_OR_PARTITION")
    status, out, error = odradek.run("consume", "there", "gone", "-e")
    assert (status, out) == (1, "") and "topic gone: UNKNOWN_TOPIC_OR_PARTITION" in error


def test_an_offset_behind_the_end_is_the_end(odradek: Odradek) -> None:
    odradek.told("topics", "create", "short", "-p", "1")
    odradek.told("produce", "short", "x")
    assert odradek.told("consume", "short", "-e", "-o", "99") == ""
    assert odradek.told("consume", "short", "-e", "-o", "0") == "x\n"


def test_what_consume_prints_produce_takes(odradek: Odradek) -> None:
    odradek.told("topics", "create", "from-here", "to-there", "-p", "1")
    odradek.told("produce", "from-here", "-f", "hex", "00ff", "-k", "6b", "-H", "kind=test")
    odradek.told("produce", "from-here", "-k", "gone", "--tombstone")
    odradek.told("produce", "from-here", "-K", ":", stdin="a:1\nb:2\n")
    printed = odradek.told("consume", "from-here", "-e", "--json")
    odradek.told("produce", "to-there", "-f", "json", stdin=printed)
    copied = odradek.told("consume", "to-there", "-e", "--json")
    assert copied == printed.replace("from-here", "to-there")
    assert [json.loads(line)["value"] for line in copied.splitlines()] == [{"base64": "AP8="}, None, "1", "2"]
    assert odradek.told("consume", "to-there", "-o", "2", "-n", "1", "-f", "%p/%o %k=%v\\n") == "0/2 a=1\n"
    assert odradek.told("consume", "to-there", "-e", "-o", "-1h", "-f", "hex") == "00ff\n\n31\n32\n"


def test_an_empty_key_or_value_is_none_that_is_missing(odradek: Odradek) -> None:
    odradek.told("topics", "create", "empty", "empty-again", "-p", "1")
    odradek.told("produce", "empty", "-k", "", "-H", "h=", "")
    odradek.told("produce", "empty", "-K", ":", stdin=":\n")
    odradek.told(
        "produce", "empty", "-f", "json", stdin='{"key": "", "value": "", "headers": [["h", ""], ["n", null]]}\n'
    )
    odradek.told("produce", "empty", "-f", "json", "-k", "common", stdin='{"key": "", "value": null}\n{}\n')
    printed = odradek.told("consume", "empty", "-e", "--json")
    found = [json.loads(line) for line in printed.splitlines()]
    assert [(one["key"], one["value"], one["headers"]) for one in found] == [
        ("", "", [["h", ""]]),
        ("", "", []),
        ("", "", [["h", ""], ["n", None]]),
        ("", None, []),
        ("common", None, []),
    ]
    odradek.told("produce", "empty-again", "-f", "json", stdin=printed)
    assert odradek.told("consume", "empty-again", "-e", "--json") == printed.replace('"empty"', '"empty-again"')


@pytest.mark.parametrize(
    ("arguments", "stdin", "text"),
    [
        (("-f", "hex", "xyz"), "", "value 'xyz' is no hex"),
        (("-f", "json"), "{}\nno\n", "line 2 is no JSON"),
        (("-f", "json"), '{"timestamp": "x"}\n', "line 1: timestamp = 'x': expected milliseconds"),
        (("-K", ":"), "a:1\nb\n", "line 2 has no ':'"),
    ],
)
def test_a_wrong_record_is_named(odradek: Odradek, arguments: tuple[str, ...], stdin: str, text: str) -> None:
    odradek.run("topics", "create", "wrong")
    status, _, error = odradek.run("produce", "wrong", *arguments, stdin=stdin)
    assert status == 1
    assert text in error


def test_a_group_is_described_reset_and_deleted(odradek: Odradek) -> None:
    odradek.told("topics", "create", "read", "-p", "1")
    odradek.told("produce", "read", "a", "b", "c")
    assert odradek.told("consume", "read", "-g", "readers", "-e") == "a\nb\nc\n"
    (found,) = odradek.json("groups", "describe", "readers")
    offsets = {"topic": "read", "partition": 0, "committed": 3, "end": 3, "lag": 0}
    assert found == {"group": "readers", "type": "classic", "state": "Empty", "members": [], "offsets": [offsets]}
    new = [{"topic": "read", "partition": 0, "committed": 3, "new": 0}]
    assert odradek.json("groups", "reset-offsets", "readers", "--to", "start", "--dry-run") == new
    assert odradek.json("groups", "describe", "readers")[0]["offsets"] == [offsets]
    odradek.told("groups", "reset-offsets", "readers", "--by", "-2")
    assert odradek.told("consume", "read", "-g", "readers", "-e") == "b\nc\n"
    odradek.told("groups", "delete", "readers")
    assert odradek.run("groups", "describe", "readers")[0] == 1


@pytest.mark.parametrize("word", ["acl", "acls"])
def test_rules_of_access(odradek: Odradek, word: str) -> None:
    odradek.told(word, "add", "--principal", "User:app", "--operation", "read", "--topic", "a", "--group", "g")
    odradek.told(word, "add", "--principal", "User:app", "--operation", "write", "--topic", "a", "--prefixed", "--deny")
    rules = [" ".join(one.values()) for one in odradek.json(word, "list", "--principal", "User:app")]
    assert rules == [
        "User:app * allow read group g literal",
        "User:app * allow read topic a literal",
        "User:app * deny write topic a prefixed",
    ]
    odradek.told(word, "remove", "--principal", "User:app", "--group", "g")
    assert len(odradek.json(word, "list")) == 2
    odradek.told(word, "remove", "--principal", "User:app")
    assert odradek.json(word, "list") == []


def test_users_and_quotas(odradek: Odradek) -> None:
    odradek.told("users", "add", "bob", stdin="secret\n")
    assert odradek.json("users", "list") == [{"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 4096}]
    odradek.told("users", "delete", "bob")
    assert odradek.json("users", "list") == []
    odradek.told("quotas", "set", "producer_byte_rate=1000", "--user", "bob", "--client-id", "<default>")
    (quota,) = odradek.json("quotas", "list")
    assert (quota["user"], quota["client_id"], quota["value"]) == ("bob", "<default>", 1000.0)
    odradek.told("quotas", "remove", "producer_byte_rate", "--user", "bob", "--client-id", "<default>")
    assert odradek.json("quotas", "list") == []


def test_an_open_transaction_is_aborted(odradek: Odradek) -> None:
    odradek.told("topics", "create", "paid", "-p", "1")
    producer = Producer({"bootstrap.servers": odradek.bootstrap, "transactional.id": "payer"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("paid", b"never")
    producer.flush(30)
    assert {one["transactional_id"]: one["state"] for one in odradek.json("transactions", "list")} == {
        "payer": "Ongoing"
    }
    assert odradek.json("transactions", "describe", "payer")[0]["partitions"] == ["paid-0"]
    refused = odradek.run("transactions", "abort", "--partition", "paid:0", "--start-offset", "7")
    assert (refused[0], "no open transaction that begins at 7" in refused[2]) == (1, True)
    odradek.told("transactions", "abort", "payer")
    assert odradek.json("transactions", "describe", "payer")[0]["state"] in ("CompleteAbort", "Empty")
    assert odradek.told("consume", "paid", "-e") == ""
    assert odradek.told("consume", "paid", "-e", "--isolation", "read_uncommitted") == "never\n"


def test_a_transaction_is_ended_in_a_partition(odradek: Odradek) -> None:
    odradek.told("topics", "create", "stuck", "-p", "1")
    producer = Producer({"bootstrap.servers": odradek.bootstrap, "transactional.id": "hanging"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("stuck", b"never")
    producer.flush(30)
    odradek.told("transactions", "abort", "--partition", "stuck:0", "--start-offset", "0")
    odradek.told("produce", "stuck", "after")
    assert odradek.told("consume", "stuck", "-n", "1") == "after\n"


def test_both_libraries_log_in_over_tls() -> None:
    with sound_broker(security="SASL_SSL", users={"app": "secret"}) as broker:
        config = broker.client_config("confluent", user="app")
        named = [f"{name}={value}" for name, value in config.items() if name.startswith(("security", "sasl", "ssl"))]
        secure = [word for one in named for word in ("-X", one)]
        odradek = Odradek(broker.bootstrap_servers)
        odradek.told("topics", "create", "safe", *secure)
        assert odradek.told("transactions", "list", *secure).startswith("TRANSACTIONAL-ID")


def test_bytes_that_are_no_text_are_kept(odradek: Odradek) -> None:
    odradek.told("topics", "create", "bytes", "-p", "1")
    ran = subprocess.run(
        [sys.executable, "-m", "odradek", "produce", "bytes", "-b", odradek.bootstrap],
        input=b"\xff\xfe\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert odradek.told("consume", "bytes", "-e", "-f", "hex") == "fffe\n"


def test_the_cluster_and_moves_in_it(odradek: Odradek) -> None:
    odradek.told("topics", "create", "moved", "-p", "1")
    assert [one["broker"] for one in odradek.json("cluster", "status")["brokers"]] == [1]
    status, _, error = odradek.run("reassign", "start", "moved:0=7")
    assert (status, "INVALID_REPLICA_ASSIGNMENT" in error or "INVALID_REPLICATION_ASSIGNMENT" in error) == (1, True)
    assert odradek.json("reassign", "list") == []
    assert "NO_REASSIGNMENT_IN_PROGRESS" in odradek.run("reassign", "cancel", "moved")[2]


def test_what_is_measured(odradek: Odradek) -> None:
    odradek.told("topics", "create", "measured", "-p", "1")
    written = odradek.json("bench", "produce", "measured", "--seconds", "0.2")
    read = odradek.json("bench", "consume", "measured", "--seconds", "30")
    assert read["records"] == written["records"] > 0
    assert "█" in odradek.told("bench", "latency", "measured", "-n", "5")


def test_contexts_are_kept_in_a_file_of_its_owner(tmp_path: Path, odradek: Odradek) -> None:
    file = tmp_path / "contexts.json"
    environment = {"ODRADEK_CONTEXTS": str(file)}

    def told(*arguments: str) -> str:
        return odradek.told(*arguments, at="", environment=environment)

    told("contexts", "add", "here", odradek.bootstrap, "-X", "client.id=me", "-X", "sasl.password=geheim")
    told("contexts", "add", "nowhere", "127.0.0.1:1")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "geheim" not in told("contexts", "list")
    status, _, error = odradek.run("topics", "list", "--timeout", "2", at="", environment=environment)
    assert (status, "no broker answers at 127.0.0.1:1" in error) == (1, True)
    told("topics", "list", "--context", "here")
    told("--context", "here", "topics", "list")
    told("contexts", "use", "here")
    told("topics", "list")
    told("contexts", "remove", "here")
    assert "there is no context 'here'" in odradek.run("contexts", "use", "here", environment=environment, at="")[2]


@pytest.mark.parametrize("place", range(3), ids=["before", "between", "behind"])
def test_the_general_options_stand_anywhere(odradek: Odradek, place: int) -> None:
    where = ("-b", odradek.bootstrap)
    words: list[tuple[str, ...]] = [("topics",), ("list",)]
    words.insert(place, (*where, "--json", "--timeout", "20"))
    assert isinstance(json.loads(odradek.told(*(one for word in words for one in word), at="")), list)


def test_the_general_option_that_is_nearest_to_the_command_counts(odradek: Odradek) -> None:
    nowhere = ("-b", "127.0.0.1:1", "-X", "client.id=first")
    odradek.told(*nowhere, "topics", "-X", "client.id=second", "list", "--timeout", "20")


def test_a_partition_that_the_topic_has_not_is_no_place_for_a_record(odradek: Odradek) -> None:
    odradek.told("topics", "create", "single", "-p", "1")
    status, _, error = odradek.run("produce", "single", "x", "-p", "9")
    assert (status, "there is no partition 9 of single" in error) == (2, True)


def test_what_was_written_before_a_wrong_line_is_said(odradek: Odradek) -> None:
    odradek.told("topics", "create", "half", "-p", "1")
    status, out, error = odradek.run("produce", "half", "-K", ":", stdin="k:a\nk:b\nwrong\nk:c\n")
    assert (status, out) == (1, "topic half: 2 written\n")
    assert "line 3 has no ':'" in error


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("topics", "lsit"), "did you mean list?"),
        (("tpics", "list"), "did you mean topics?"),
        (("topics", "alter", "x"), "nothing to alter"),
        (("consume", "x", "-o", "yesterday"), "expected start, end, an offset"),
        (("groups", "reset-offsets", "g"), "expected one of --to and --by"),
        (("acls", "remove"), "expected which rules"),
        (("quotas", "set", "a=1"), "expected --user, --client-id or --ip"),
        (("topics", "list", "-X", "nonsense"), "expected KEY=VALUE"),
        (("topics", "-X", "nonsense=1", "list"), 'No such configuration property: "nonsense"'),
        (("-b", "", "topics", "list"), "it is empty"),
        (("--json", "format", "-t", "s"), "is no client of a cluster: it takes none of the options before it"),
        (("reassign", "x"), "there are cancel, list, start"),
        (("transactions", "list", "--state", "Foo"), "'Foo' is not one of 'Empty', 'Ongoing'"),
        (("--context", "nowhere", "topics", "list"), "there is no context 'nowhere'; known: none"),
    ],
)
def test_a_wrong_command_says_what_is_right(odradek: Odradek, arguments: tuple[str, ...], text: str) -> None:
    status, _, error = odradek.run(*arguments)
    assert status == 2, error
    assert text in " ".join(error.split())


def test_without_the_extra_a_command_says_how_to_install_it() -> None:
    program = (
        "import sys; sys.modules['confluent_kafka'] = None; sys.argv = ['odradek', 'topics', 'list'];"
        "from odradek.__main__ import main; sys.exit(main())"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    assert "pip install '/path/to/odradek[cli]'" in run.stderr


def test_a_shell_completes_commands() -> None:
    variables = {"_ODRADEK_COMPLETE": "bash_complete", "COMP_WORDS": "odradek topics d", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "odradek"]
    run = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False
    )
    assert sorted(run.stdout.split()) == ["plain,delete", "plain,describe"]


def test_the_page_has_the_help_of_each_command() -> None:
    found: Any = document.FILE.read_text()
    assert found == document.text(), "run python -m odradek.cli.document"


def test_latency_is_that_of_our_own_records_while_another_writes() -> None:
    delay_ms = 400
    with Broker() as broker:
        broker.topic("shared", partitions=1)
        broker.fault("Produce", client_id="odradek-cli", delay=delay_ms / 1000)
        other, ended = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}), threading.Event()

        def write() -> None:
            while not ended.is_set():
                other.produce("shared", b"another's")
                other.flush(10)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            found = Odradek(broker.bootstrap_servers).json("bench", "latency", "shared", "-n", "2")
        finally:
            ended.set()
            thread.join()
    assert found["p50_ms"] >= delay_ms


def test_one_transactional_id_that_is_not_there_does_not_hide_the_others(odradek: Odradek) -> None:
    Producer({"bootstrap.servers": odradek.bootstrap, "transactional.id": "there"}).init_transactions(30)
    status, out, error = odradek.run("transactions", "describe", "nobody", "there", "--json")
    there, nobody = json.loads(out)
    assert (status, there["state"], nobody["error"]) == (1, "Empty", "TRANSACTIONAL_ID_NOT_FOUND")
    assert "transactional id nobody: TRANSACTIONAL_ID_NOT_FOUND" in error


def test_groups_describe_shows_assigned_partitions_without_a_commit(odradek: Odradek) -> None:
    odradek.told("topics", "create", "assigned", "-p", "2")
    odradek.told("produce", "assigned", "a", "b", "-p", "1")
    consumer = Consumer({"bootstrap.servers": odradek.bootstrap, "group.id": "members", "enable.auto.commit": False})
    consumer.subscribe(["assigned"])
    try:
        while not consumer.assignment():
            consumer.poll(0.1)
        consumer.commit(offsets=[TopicPartition("assigned", 1, 0)], asynchronous=False)
        (found,) = odradek.json("groups", "describe", "members")
    finally:
        consumer.close()
    assert [(one["partition"], one["committed"], one["end"], one["lag"]) for one in found["offsets"]] == [
        (0, None, 0, None),
        (1, 0, 2, 2),
    ]
