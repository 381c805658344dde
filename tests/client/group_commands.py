"""What `odradek groups` prints of share and streams groups: the same for Odradek and Apache Kafka."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.client import word_count
from tests.command_line import Odradek
from tests.waiting import wait_until

SHARE = "sharers"
TOPIC = "shared"
RESET = ("reset-offsets", "--to", "start")


def share_transcript(odradek: Odradek) -> list[str]:
    """What is printed of a share group while a member has read three records, when it has left, and at the end."""
    odradek.told("topics", "create", TOPIC, "-p", "1", "-r", "1")
    odradek.told("produce", TOPIC, stdin="a\nb\nc\n")
    from_start = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, SHARE, incremental_configs=[from_start])
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(60)
    consumer = ShareConsumer({"bootstrap.servers": odradek.bootstrap, "group.id": SHARE, "log_level": 0})
    consumer.subscribe([TOPIC])
    read = 0

    def has_read() -> bool:
        nonlocal read
        read += len(consumer.poll(timeout=0.2))
        return read >= 3

    try:
        wait_until(has_read, "the share group has not read three records")
        consumer.commit_sync()
        (about,) = described(odradek, SHARE)
        assert [member["assigned"] for member in about["members"]] == [[f"{TOPIC}-0"]]
        found = [printed(odradek, "groups", "describe", SHARE, "--json"), printed(odradek, "groups", *RESET, SHARE)]
    finally:
        consumer.close()
    wait_until(lambda: described(odradek, SHARE)[0]["state"] == "Empty", "the share group still has its member")
    wait_until(lambda: described(odradek, SHARE)[0]["offsets"][0]["lag"] == 0, "the share group has not read all")
    return found + [
        printed(odradek, "groups", *command)
        for command in (
            ("list",),
            (*RESET, SHARE, "-t", f"{TOPIC}:7"),
            ("reset-offsets", SHARE, "--to", "end", "--dry-run"),
            ("reset-offsets", SHARE, "--to", "end"),
            ("reset-offsets", SHARE, "--by", "-2"),
            ("describe", SHARE),
            ("delete-offsets", SHARE, "-t", TOPIC),
            ("describe", SHARE),
            ("delete", SHARE),
            ("describe", SHARE),
        )
    ]


def streams_transcript(odradek: Odradek, folder: Path) -> list[str]:
    """The same of an application of Kafka Streams that has counted twenty words."""
    odradek.told("topics", "create", word_count.INPUT, word_count.OUTPUT, "-p", "2", "-r", "1")
    for partition in ("0", "1"):
        odradek.told("produce", word_count.INPUT, "-p", partition, stdin="\n".join(word_count.words(10)))
    process = word_count.instance(odradek.bootstrap, folder / "streams")
    try:
        wait_until(lambda: lag(odradek) == 0, "the application has not counted")
        found = [printed(odradek, "groups", "describe", word_count.APP, "--json")]
        end(process)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: described(odradek, word_count.APP)[0]["state"] == "Empty", "the group still has its member")
    return found + [
        printed(odradek, "groups", *command)
        for command in (
            ("list",),
            (*RESET, word_count.APP, "-t", word_count.INPUT, "--dry-run"),
            (*RESET, word_count.APP, "-t", word_count.INPUT),
            ("describe", word_count.APP, "--json"),
            ("delete-offsets", word_count.APP, "-t", word_count.INPUT),
            ("describe", word_count.APP, "--json"),
            ("delete", word_count.APP),
            ("list",),
        )
    ]


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)


def described(odradek: Odradek, group: str) -> Any:
    return odradek.json("groups", "describe", group)


def lag(odradek: Odradek) -> int | None:
    """What the application has not read of its input; None before it has committed in each partition that it reads."""
    if word_count.APP not in odradek.told("groups", "list"):
        return None
    (about,) = described(odradek, word_count.APP)
    rows: list[dict[str, Any]] = about["offsets"]
    if len(rows) < 4 or any(row["committed"] is None for row in rows):
        return None
    return sum(int(row["lag"]) for row in rows if row["topic"] == word_count.INPUT)


def printed(odradek: Odradek, *command: str) -> str:
    """The command, what it prints without ids and without the ends of topics with markers, and its status."""
    status, out, error = odradek.run(*command)
    out = re.sub(r'(-repartition",\s+"partition": \d,\s+"committed": )\d+(,\s+"end": )\d+', r"\1N\2N", out)
    text = re.sub(r'"(member|process|client|host)": "[^"]*"', r'"\1": "ID"', out + error)
    text = re.sub(r"([A-Z]{2,}_[A-Z_]+)(: [^()\n]*)", r"\1 ", text)
    return f"$ {' '.join(command)}\n{text}-> {status}"
