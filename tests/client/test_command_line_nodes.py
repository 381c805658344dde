"""`odradek configs`, `client-metrics`, `cluster`, `elect` and `tokens`: what an operator asks of nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from odradek import Broker, Cluster
from tests.brokers import sound_broker
from tests.command_line import Odradek


@pytest.fixture(scope="module")
def odradek(own_cluster: None) -> Iterator[Odradek]:
    with sound_broker() as broker:
        odradek = Odradek(broker.bootstrap_servers)
        odradek.told("topics", "create", "orders", "-p", "2")
        yield odradek


def value_of(odradek: Odradek, *of: str) -> tuple[str | None, str]:
    """The value of the only configuration that is listed, and where it comes from."""
    (found,) = odradek.json("configs", "list", *of)
    return found["value"], found["source"]


def test_a_brokers_own_value_wins_over_the_cluster_wide_one(odradek: Odradek) -> None:
    retention = ("log.retention.ms", "--broker", "1")
    assert value_of(odradek, *retention) == (None, "default")
    assert odradek.told("configs", "set", "--all", "log.retention.ms=60000") == "broker all: altered\n"
    assert value_of(odradek, *retention) == ("60000", "cluster-wide")
    assert odradek.told("configs", "set", "--broker", "1", "log.retention.ms=5000", "--dry-run").endswith(
        "would be altered\n"
    )
    assert value_of(odradek, *retention) == ("60000", "cluster-wide")
    odradek.told("configs", "set", "--broker", "1", "log.retention.ms=5000")
    assert value_of(odradek, *retention) == ("5000", "broker")
    odradek.told("configs", "unset", "--broker", "1", "log.retention.ms")
    odradek.told("configs", "unset", "--all", "log.retention.ms")
    assert value_of(odradek, *retention) == (None, "default")


def test_what_is_set_is_listed_and_defaults_if_they_are_asked_for(odradek: Odradek) -> None:
    keys = {row["key"]: row for row in odradek.json("configs", "list")}
    assert keys["log.dirs"]["source"] == "server.properties"
    assert keys["log.dirs"]["changes_while_it_runs"] is False
    assert "log.retention.ms" not in keys
    assert "log.retention.ms" in odradek.told("configs", "list", "--defaults")


def test_the_level_of_a_logger(odradek: Odradek) -> None:
    logger = ("storage.log", "--loggers", "--broker", "1")
    assert value_of(odradek, *logger) == ("INFO", "logger")
    odradek.told("configs", "set", "storage.log=DEBUG", *logger[1:])
    assert value_of(odradek, *logger) == ("DEBUG", "logger")
    odradek.told("configs", "unset", *logger)
    assert value_of(odradek, *logger) == ("INFO", "logger")


@pytest.mark.parametrize(
    ("wrong", "status", "said"),
    [
        (("set", "log.retention.ms=5"), 2, "expected --broker ID, or --all"),
        (("set", "--all", "--loggers", "storage=DEBUG"), 2, "name brokers by --broker"),
        (("set", "--all", "log.retention.ms"), 2, "expected KEY=VALUE"),
        (("set", "--all", "log.retention.ms=soon"), 1, "Not a number"),
        (("set", "--broker", "1", "log.dirs=/elsewhere"), 1, "INVALID_REQUEST"),
        (("set", "--broker", "1", "--loggers", "no.such=DEBUG"), 1, "INVALID_CONFIG"),
        (("list", "no.such"), 2, "no broker has no.such"),
    ],
)
def test_a_wrong_configuration_is_refused(odradek: Odradek, wrong: tuple[str, ...], status: int, said: str) -> None:
    found, _, error = odradek.run("configs", *wrong)
    assert (found, said in error) == (status, True), error


def test_a_subscription_to_metrics_of_clients(odradek: Odradek) -> None:
    odradek.told("client-metrics", "set", "all", "--metrics", "*", "--interval", "30s", "--match", "client_id=a.*")
    odradek.told("client-metrics", "set", "all", "--interval", "1m")
    assert odradek.json("client-metrics", "list") == [
        {"subscription": "all", "interval_ms": "60000", "metrics": "*", "match": "client_id=a.*"}
    ]
    for wrong, said in (
        (("--interval", "3"), "such as 500ms"),
        (("--match", "colour=x"), "INVALID_CONFIG"),
        ((), "--m"),
    ):
        status, _, error = odradek.run("client-metrics", "set", "all", *wrong)
        assert (status > 0, said in error) == (True, True), error
    status, out, error = odradek.run("client-metrics", "delete", "none", "all")
    assert (status, out) == (1, "subscription all: deleted\n")
    assert "there is no such subscription" in error
    assert odradek.json("client-metrics", "list") == []


def test_the_quorum_and_what_log_directories_hold(odradek: Odradek) -> None:
    quorum = odradek.json("cluster", "quorum")
    assert quorum["leader"] == 1
    (leader,) = quorum["replicas"]
    assert (leader["role"], leader["lag"]) == ("leader", 0)
    odradek.told("produce", "orders", "x" * 1000, "-p", "1")
    (row,) = odradek.json("cluster", "log-dirs", "--topic", "orders")
    assert (row["topic"], row["replicas"], row["moving"], row["lag"]) == ("orders", 2, 0, None)
    first, second = odradek.json("cluster", "log-dirs", "--topic", "orders", "--partitions")
    assert (first["bytes"], second["partition"]) == (0, "orders-1")
    assert second["bytes"] == row["bytes"] > 1000
    status, _, error = odradek.run("cluster", "log-dirs", "--broker", "7")
    assert (status, "there is no broker 7" in error) == (2, True)


def test_levels_of_features(odradek: Odradek) -> None:
    levels = {row["feature"]: row for row in odradek.json("cluster", "features", "list")}
    highest = levels["streams.version"]["highest"]
    assert levels["streams.version"]["level"] == highest == 1
    odradek.told("cluster", "features", "downgrade", "streams.version=0", "--dry-run")
    odradek.told("cluster", "features", "downgrade", "streams.version=0")
    status, _, error = odradek.run("cluster", "features", "upgrade", "streams.version=1", "no.such=1")
    assert (status, "INVALID_UPDATE_VERSION" in error) == (1, True), error
    assert odradek.told("cluster", "features", "upgrade", "streams.version=1") == "feature streams.version: level 1\n"
    assert odradek.run("cluster", "features", "upgrade", "streams.version")[0] == 2


def test_an_election_that_is_not_needed_or_has_no_partition(odradek: Odradek) -> None:
    assert odradek.told("elect", "preferred") == "partition all: no partition needs an election\n"
    assert "orders-1: needs no election" in odradek.told("elect", "unclean", "orders")
    status, out, error = odradek.run("elect", "preferred", "orders:0", "orders:9", "nowhere")
    assert (status, out) == (1, "partition orders-0: needs no election\n")
    assert "orders-9: UNKNOWN_TOPIC_OR_PARTITION" in error
    assert "topic nowhere: UNKNOWN_TOPIC_OR_PARTITION" in error


def test_the_preferred_leader_leads_again_and_a_broker_that_is_gone_is_unregistered() -> None:
    with Cluster(brokers=3) as cluster:
        odradek = Odradek(cluster.bootstrap_servers)
        odradek.told("topics", "create", "orders", "-p", "1", "-r", "3")
        (partition,) = odradek.json("topics", "describe", "orders")[0]["partitions"]
        preferred, other, gone = (cluster.brokers[number] for number in partition["replicas"])
        cluster.move_leader("orders", 0, other)
        assert odradek.told("elect", "preferred", "orders").endswith(": elected\n")
        assert cluster.leader("orders") == preferred
        status, _, error = odradek.run("cluster", "unregister", str(gone.index))
        assert (status, "is alive" in error) == (1, True)
        gone.kill()
        cluster.expire(gone)
        assert odradek.told("cluster", "unregister", str(gone.index)) == f"broker {gone.index}: unregistered\n"


SECURE = {"delegation.token.secret.key": "tests", "sasl.enabled.mechanisms": "PLAIN"}


def test_a_token_from_its_creation_to_its_end() -> None:
    with Broker(SECURE, profile="dev", security="SASL_PLAINTEXT", users={"app": "a", "other": "b"}) as broker:
        odradek = Odradek(broker.bootstrap_servers)

        def login(user: str) -> list[str]:
            config = broker.client_config("confluent", user=user)
            return [
                word
                for key in config
                if key.startswith(("sasl", "security"))
                for word in ("-X", f"{key}={config[key]}")
            ]

        app = login("app")
        made = json.loads(
            odradek.told("tokens", "create", "--renewer", "User:other", "--lifetime", "1d", "--json", *app)
        )
        assert made["owner"] == "User:app"
        assert len(made["hmac"]) > 20
        (row,) = json.loads(odradek.told("tokens", "list", "--json", *app))
        assert (row["token_id"], row["renewers"]) == (made["token_id"], ["User:other"])
        assert made["hmac"] not in odradek.told("tokens", "list", *app)
        assert "renewed until" in odradek.told("tokens", "renew", made["token_id"], "--for", "2h", *app)
        status, _, error = odradek.run("tokens", "renew", "no-such", *app)
        assert (status, "sees no such token" in error) == (1, True)
        assert odradek.run("tokens", "create", "--owner", "app", *app)[0] == 2
        assert odradek.told("tokens", "expire", made["token_id"], *app).endswith(": expired\n")
        assert json.loads(odradek.told("tokens", "list", "--json", *app)) == []
