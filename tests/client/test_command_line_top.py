"""`odradek top`: a picture of a broker over sockets, and the screen that a terminal gets."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from odradek import Broker
from odradek.cli.top import ENTER, LEAVE, lines
from tests.brokers import sound_broker
from tests.command_line import Odradek


@pytest.fixture(scope="module")
def broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker() as broker:
        odradek = Odradek(broker.bootstrap_servers)
        odradek.told("topics", "create", "orders", "-p", "2")
        odradek.told("produce", "orders", "a", "b", "c", "-p", "1")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 1, 1)], asynchronous=False)
        consumer.close()
        yield broker


def test_one_picture_for_programs_and_for_people(broker: Broker) -> None:
    odradek = Odradek(broker.bootstrap_servers)
    found = odradek.json("top", "--every", "0.1")
    (orders,) = [row for row in found["topics"] if row["topic"] == "orders"]
    assert (orders["partitions"], orders["end"], orders["records_per_second"]) == (2, 3, 0)
    (group,) = found["groups"]
    assert (group["group"], group["lag"]) == ("billing", 2)
    (node,) = found["brokers"]
    assert node["leads"] == node["replicas"] == found["partitions"]
    text = odradek.told("top", "--once", "--every", "0.1", "--no-groups")
    assert "orders  " in text
    assert "billing" not in text
    assert "\x1b" not in text


def test_a_rate_counts_what_came_between_two_looks(broker: Broker) -> None:
    command = [sys.executable, "-m", "odradek", "top", "--json", "--every", "3", "-b", broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        while watching.poll() is None:  # some of these are between the looks
            broker.topic("orders").produce(b"x")
        assert watching.stdout is not None
        found = json.load(watching.stdout)
    (orders,) = [row for row in found["topics"] if row["topic"] == "orders"]
    assert orders["records_per_second"] > 0
    assert found["records_per_second"] >= orders["records_per_second"]
    assert found["brokers"][0]["records_per_second"] == found["records_per_second"]


def test_ctrl_c_leaves_the_terminal_as_it_was(broker: Broker) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "odradek", "top", "--every", "0.1", "-b", broker.bootstrap_servers]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        sent = b""
        while b"billing" not in sent and select.select([ours], [], [], 60)[0]:
            sent += os.read(ours, 1 << 16)
        process.send_signal(signal.SIGINT)
        try:
            while part := os.read(ours, 1 << 16):
                sent += part
        except OSError:  # EIO: nobody has the other end any more
            pass
        os.close(ours)
        assert process.wait(60) == 0
    assert sent.startswith(ENTER.encode())
    assert sent.endswith(LEAVE.encode())
    assert b"Traceback" not in sent


def test_a_low_screen_shows_the_first_rows_of_each_table() -> None:
    found = {
        "cluster": "here",
        "records_per_second": 1.5,
        "partitions": 90,
        "under_replicated": 0,
        "without_leader": 0,
        "brokers": [{"broker": 1, "leads": 90}],
        "topics": [{"topic": f"t{number}"} for number in range(90)],
        "groups": [{"group": f"g{number}"} for number in range(90)],
    }
    drawn = lines(found, 24)
    assert len(drawn) <= 24
    assert {"t0", "g0"} <= set(drawn)
    assert "t80" not in drawn
    assert len(lines(found)) > 180
