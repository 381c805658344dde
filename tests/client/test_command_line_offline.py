"""`odradek` on a cluster of which a broker is away: what can be known is shown and done, the rest is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from odradek import Cluster
from tests.command_line import Odradek

pytestmark = pytest.mark.usefixtures("own_cluster")


@pytest.fixture(scope="module")
def odradek() -> Iterator[Odradek]:
    """Topic `t` has records a0, a1 in each of two partitions, read by group `readers`; one has no leader any more."""
    with Cluster(brokers=2) as cluster:
        odradek = Odradek(cluster.bootstrap_servers)
        odradek.told("topics", "create", "t", "-p", "2", "-r", "1")
        for partition in "01":
            odradek.told("produce", "t", "a0", "a1", "-p", partition)
        odradek.told("consume", "t", "-g", "readers", "-e")
        away = cluster.leader("t", 1)
        assert away is not None and away != cluster.leader("t", 0)
        away.stop()
        yield odradek


def refused(odradek: Odradek, *arguments: str) -> str:
    """The output of a command that is done for partition 0 and tells that 1 has no leader."""
    status, out, error = odradek.run(*arguments)
    assert (status, error.count("partition t-1: LEADER_NOT_AVAILABLE")) == (1, 1), out + error
    return out


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_groups_describe_shows_the_partitions_that_have_a_leader(odradek: Odradek) -> None:
    found = rows(refused(odradek, "groups", "describe", "readers"))
    assert found[2:] == [["t", "0", "2", "2", "0"], ["t", "1", "2", "-", "-"]]
    group, error = json.loads(refused(odradek, "groups", "describe", "readers", "--json"))
    assert [one["lag"] for one in group["offsets"]] == [0, None]
    assert (error["partition"], error["error"]) == ("t-1", "LEADER_NOT_AVAILABLE")


@pytest.mark.parametrize("where", [("--to", "start"), ("--to", "0"), ("--to", "-1h"), ("--by", "-2")])
def test_reset_offsets_plans_the_partitions_that_have_a_leader(odradek: Odradek, where: tuple[str, ...]) -> None:
    found = rows(refused(odradek, "groups", "reset-offsets", "readers", *where, "--dry-run"))
    assert found[1:] == [["t", "0", "2", "0"], ["t", "1", "2", "-"]]


@pytest.mark.parametrize("more", [(), ("-o", "0"), ("-g", "new")])
def test_consume_reads_the_partitions_that_have_a_leader(odradek: Odradek, more: tuple[str, ...]) -> None:
    assert refused(odradek, "consume", "t", "-e", *more) == "a0\na1\n"


def test_topics_describe_and_trim_partitions_that_have_a_leader(odradek: Odradek) -> None:
    described = rows(refused(odradek, "topics", "describe", "t"))
    assert [row[0:2] + row[4:] for row in described[3:]] == [["1", "-", "-", "-"]]
    assert described[2][4:] == ["0", "2"]
    assert refused(odradek, "topics", "trim", "t", "--to", "0") == "partition t-0: begins at 0\n"


def test_a_topic_that_is_not_there_keeps_no_command_from_the_others(odradek: Odradek) -> None:
    def run(*arguments: str) -> tuple[int, Any, str]:
        status, out, error = odradek.run(*arguments)
        assert "topic gone: UNKNOWN_TOPIC_OR_PARTITION" in error
        return status, out, error

    assert run("consume", "gone", "t", "-e", "-p", "0")[:2] == (1, "a0\na1\n")
    status, out, _ = run("groups", "reset-offsets", "readers", "--to", "end", "-t", "gone", "-t", "t:0", "--dry-run")
    assert (status, rows(out)[1:]) == (1, [["t", "0", "2", "2"]])
    status, out, error = run("reassign", "cancel", "gone", "t:0")
    assert (status, out, "partition t-0: NO_REASSIGNMENT_IN_PROGRESS" in error) == (1, "", True), error
    assert run("bench", "produce", "gone")[:2] == (1, "")


def test_the_folders_of_a_broker_that_has_just_died_keep_no_command_from_the_others() -> None:
    """Until its session ends, it counts as alive."""
    with Cluster(brokers=2, settings={"broker.session.timeout.ms": 60_000}) as cluster:
        odradek = Odradek(cluster.bootstrap_servers)
        odradek.told("cluster", "log-dirs")
        here, gone = (broker.index for broker in cluster.brokers)
        cluster.brokers[1].kill()
        status, out, error = odradek.run("cluster", "log-dirs", "--json")
        assert (status, json.loads(out)[-1]["broker"]) == (1, gone)
        assert f"Error: broker {gone}: " in error
        status, out, error = odradek.run("check", "disk", "--critical", "101", "--warning", "101")
    assert (status, f"the device of {here}:" in out, f"Error: broker {gone}: " in error) == (3, True, True)


def test_a_coordinator_that_is_about_to_be_there_is_waited_for() -> None:
    """The first question makes the topic of the coordinators."""
    with Cluster(brokers=2) as cluster:
        status, _, error = Odradek(cluster.bootstrap_servers).run("transactions", "describe", "nobody")
    assert (status, "TRANSACTIONAL_ID_NOT_FOUND" in error) == (1, True), error
