"""Commands and options by the names that Kafka's scripts, kcat and rpk have for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import sound_broker
from tests.command_line import Odradek

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
}


@pytest.fixture(scope="module")
def odradek(own_cluster: None) -> Iterator[Odradek]:
    with sound_broker(SETTINGS) as broker:
        yield Odradek(broker.bootstrap_servers)


def words(line: str) -> list[str]:
    return line.split()


def test_topics_by_the_names_of_kafka_topics_and_rpk(odradek: Odradek) -> None:
    odradek.told(*words("topics --create --topic orders --partitions 2 --replication-factor 1 -c retention.ms=5000"))
    assert odradek.told(*words("topics create orders --if-not-exists")) == "topic orders: exists already\n"
    assert odradek.run(*words("topics create orders"))[0] == 1
    assert "orders  2" in odradek.told(*words("topics --list --exclude-internal"))
    described = odradek.told(*words("topics describe orders"))
    assert "retention.ms=5000" in described
    for same in ("topics --describe --topic orders", "topics --topic=orders --describe", "topics describe"):
        assert odradek.told(*words(same)) == described
    odradek.told(*words("topics alter-config orders --set retention.ms=6000 --set max.message.bytes=9000"))
    odradek.told(*words("topics --alter --topic orders --delete-config max.message.bytes --partitions 3"))
    odradek.told(*words("produce orders a b c -p 0"))
    odradek.told(*words("topics trim-prefix orders --offset 1 -p 0"))
    (about,) = odradek.json("topics", "describe", "orders")
    assert about["configs"] == {"retention.ms": "6000"}
    assert [(one["start"], one["end"]) for one in about["partitions"]] == [(1, 3), (0, 0), (0, 0)]
    odradek.told(*words("topics --delete --topic orders"))
    assert odradek.told(*words("topics delete orders --if-exists")) == "topic orders: does not exist\n"


def test_groups_by_the_names_of_kafka_consumer_groups_and_rpk(odradek: Odradek) -> None:
    odradek.told(*words("topics create parcels -p 2"))
    odradek.told(*words("produce parcels a b c -p 0"))
    odradek.told(*words("consume parcels -g readers -n 3"))
    described = odradek.told(*words("groups describe readers"))
    for same in ("--describe --group readers --members --verbose", "describe --all-groups", "describe"):
        assert odradek.told("groups", *words(same)) == described

    def committed() -> list[int]:
        (about,) = odradek.json("groups", "describe", "readers")
        return [row["committed"] for row in about["offsets"]]

    kafkas = words("groups --reset-offsets --group readers --topic parcels:0 --to-earliest")
    planned = odradek.told(*kafkas)
    assert committed() == [3], "Kafka's script only plans, unless --execute is given"
    assert odradek.told(*kafkas, "--execute") == planned
    assert committed() == [0]
    for command, expected in (
        ("groups reset-offsets --group readers --all-topics --to-latest", 3),
        ("groups reset-offsets readers --shift-by -1", 2),
        ("groups seek readers --to -3 --topics parcels:0", 0),
        ("groups reset-offsets readers --to-offset 1", 1),
    ):
        odradek.told(*words(command))
        assert committed() == [expected], command
    odradek.told(*words("groups offset-delete readers --topic parcels"))
    assert committed() == []
    status, _, error = odradek.run(*words("groups delete-offsets nobody -t parcels"))
    assert (status, "GROUP_ID_NOT_FOUND" in error) == (1, True)
    odradek.told(*words("groups --delete --group readers"))


def test_rules_tokens_and_subscriptions_by_the_names_of_kafkas_scripts(odradek: Odradek) -> None:
    for command in (
        "acls --add --allow-principal User:a --operation DescribeConfigs --topic orders",
        "acls create --deny-principal User:a --deny-host 10.0.0.1 --operation ALTER_CONFIGS --topic orders",
    ):
        odradek.told(*words(command))
    listed = odradek.json("acls", "list")
    assert [(rule["host"], rule["permission"], rule["operation"]) for rule in listed] == [
        ("*", "allow", "describe-configs"),
        ("10.0.0.1", "deny", "alter-configs"),
    ]
    odradek.told(*words("acls --remove --allow-principal User:a --force"))
    assert odradek.json("acls", "list") == []
    odradek.told(*words("client-metrics --alter --name all --metrics * --interval 30s"))
    odradek.told(*words("client-metrics --delete --name all"))
    assert odradek.json("client-metrics", "list") == []


def test_what_kafka_and_rpk_call_the_state_of_a_cluster(odradek: Odradek) -> None:
    status = odradek.told("cluster", "status")
    for same in ("cluster info", "cluster health", "brokers list"):
        assert odradek.told(*words(same)) == status
    odradek.told(*words("topics create kept -p 1"))
    assert [row["topic"] for row in odradek.json(*words("cluster logdirs --describe --topic kept"))] == ["kept"]
    assert odradek.run(*words("cluster unregister --id 7"))[0] == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("consume orders --timeout-ms 5", "--until-end"),
        ("consume orders --property print.key=true", "--format"),
        ("produce orders --property=parse.key=true", "--key-delimiter"),
        ("topics list --command-config admin.properties", "odradek contexts add"),
        ("topics describe --under-replicated-partitions", "odradek cluster status"),
        ("groups reset-offsets g --to-datetime 2026-01-01T00:00:00.000", "--to 2026-01-31T12:00:00Z"),
        ("groups --reset-offsets --group g --by-duration PT1H", "--to -90s"),
        ("configs --alter --entity-type brokers --entity-name 1 --add-config a=b", "--broker ID"),
        ("acls list --resource-pattern-type prefixed", "--prefixed"),
        ("users add bob -p secret", "--password-file"),
        ("reassign --execute --reassignment-json-file moves.json", "orders:0=1,2,3"),
        ("metadata-quorum describe", "did you mean cluster quorum?"),
        ("kafka-topics --list", "did you mean topics?"),
        ("get-offsets orders", "did you mean topics describe?"),
    ],
)
def test_where_no_name_means_the_same_it_is_said_what_does(odradek: Odradek, command: str, said: str) -> None:
    status, _, error = odradek.run(*words(command))
    assert (status, said in " ".join(error.split())) == (2, True), error
