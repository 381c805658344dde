"""File, environment and --set, in their precedence; warnings and errors of a start."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.config.broker_config import ConfigurationError
from broker.config.environment import config_name, is_service_link
from broker.config.sources import load
from broker.program import main
from tests.unit.broker.config.loading import load_text


def problems(properties: str, *settings: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as raised:
        load_text(properties, settings=settings)
    return raised.value.problems


def test_a_setting_beats_the_environment_which_beats_the_file() -> None:
    text = "num.partitions=1\ndefault.replication.factor=1\nmessage.max.bytes=1"
    environ = {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_MESSAGE_MAX_BYTES": "2"}
    config = load_text(text, environ, ["message.max.bytes=3"]).config
    assert [config.integer(n) for n in ("default.replication.factor", "num.partitions", "message.max.bytes")] == [
        1,
        2,
        3,
    ]
    assert config.origins["num.partitions"] == "KAFKA_NUM_PARTITIONS"
    assert config.origins["message.max.bytes"] == "--set"


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_A__B_C___D", "a_b.c-d"),
        ("ODRADEK_HTTP_PORT", "odradek.http.port"),
        ("CLUSTER_ID", "odradek.cluster.id"),
        ("KAFKA_HEAP_OPTS", None),
        ("KAFKA_LOG4J_ROOT_LOGLEVEL", None),
        ("PATH", None),
    ],
)
def test_names_of_environment_variables(variable: str, name: str | None) -> None:
    assert config_name(variable) == name


def test_variables_of_kafkas_image_and_names_without_effect_warn_once_each() -> None:
    loaded = load_text(
        "num.partition=3\nssl.protocol=TLS\nlistener.name.a.ssl.protocol=x\nxyzzy=1",
        {"KAFKA_HEAP_OPTS": "-Xmx1g", "HOME": "/"},
    )
    assert loaded.warnings == (
        "KAFKA_HEAP_OPTS steers Kafka's image or its JVM and has no effect here",
        "num.partition (from server.properties) is not a known configuration; did you mean num.partitions?",
        "ssl.protocol (from server.properties) is a Kafka configuration that is not needed here",
        "listener.name.a.ssl.protocol (from server.properties) is a Kafka configuration that is not needed here",
        "xyzzy (from server.properties) is not a known configuration",
    )


def test_every_wrong_value_is_told_with_key_value_and_expectation() -> None:
    assert problems("num.partitions=x\nlog.cleanup.policy=delete,drop", "message.max.bytes=-1") == (
        "num.partitions = 'x' (from server.properties): expected a 32-bit integer, at least 1",
        "log.cleanup.policy = 'delete,drop' (from server.properties): expected a comma separated list, "
        "each of compact, delete",
        "message.max.bytes = '-1' (from --set): expected a 32-bit integer, at least 0",
    )


def test_wrong_combinations_and_listeners_are_told_together() -> None:
    assert problems("log.retention.ms=0\nlisteners=SSL://:9092") == (
        "log.retention.ms = 0: expected at least 1, or -1 for no limit",
        "listener.name.ssl.ssl.keystore.location is not set: the listener SSL needs a private key and a certificate "
        "(with ssl.keystore.type=PEM: one file with both)",
    )


@pytest.mark.parametrize(
    "text",
    [
        "broker.id=2\nnode.id=1",
        "process.roles=",
        "log.dirs=",
        "log.retention.minutes=0",
        "log.roll.ms=0",
        "log.cleaner.threads=0",
        "log.cleaner.dedupe.buffer.size=5",
        "log.cleaner.min.compaction.lag.ms=9\nlog.cleaner.max.compaction.lag.ms=5",
        "max.connections.per.ip=0",
        "max.connections.per.ip.overrides=a:b",
        "max.connections.per.ip.overrides=a",
        "replica.fetch.wait.max.ms=40000\nreplica.socket.timeout.ms=50000",
        "replica.fetch.wait.max.ms=40000\nreplica.lag.time.max.ms=50000",
        "group.consumer.session.timeout.ms=70000",
        "group.consumer.heartbeat.interval.ms=1",
        "group.consumer.session.timeout.ms=5000\ngroup.consumer.min.session.timeout.ms=5000",
        "group.coordinator.rebalance.protocols=consumer",
        "group.consumer.assignors=sticky",
        "group.consumer.assignors=",
        "offsets.topic.compression.codec=9",
    ],
)
def test_what_kafka_refuses_together_is_refused(text: str) -> None:
    assert len(problems(text)) == 1


STANDARD = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_there_is_one_authorizer() -> None:
    (problem,) = problems("authorizer.class.name=com.example.Mine")
    assert "expected org.apache.kafka.metadata.authorizer.StandardAuthorizer, or nothing" in problem
    assert load_text("authorizer.class.name=").config.node_id == 1
    assert load_text(STANDARD + "\nsuper.users=User:a;User:CN=b,O=c").config.node_id == 1


def test_super_users_are_principals() -> None:
    (problem,) = problems(STANDARD + "\nsuper.users=admin")
    assert problem == "super.users = 'admin': expected principals such as User:admin, separated by semicolons"


def test_super_users_without_an_authorizer_draw_a_warning() -> None:
    (warning,) = load_text("super.users=User:admin").warnings
    assert warning == "super.users has no effect without authorizer.class.name: all clients may do everything"


def test_a_setting_needs_a_key_and_a_value() -> None:
    assert problems("", "num.partitions") == ("--set 'num.partitions': expected key=value",)


def test_a_malformed_file_is_named() -> None:
    assert problems("a=\\u1")[0].startswith("server.properties: ")


def test_node_id_and_broker_id_stand_for_one_another() -> None:
    assert load_text("broker.id=7").config.node_id == 7
    assert load_text("node.id=8").config.integer("broker.id") == 8
    assert load().config.node_id == 1


def test_log_dirs_beats_log_dir() -> None:
    assert load().config.log_dirs == ("./data",)
    assert load_text("log.dir=/a").config.log_dirs == ("/a",)
    assert load_text("log.dir=/a\nlog.dirs=/b, /c").config.log_dirs == ("/b", "/c")


def test_only_advertised_listeners_in_the_environment_open_every_interface() -> None:
    listeners = load(environ={"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://outside:19092"}).listeners
    assert str(listeners.bound[0]) == "PLAINTEXT://0.0.0.0:19092"
    assert str(listeners.advertised[0]) == "PLAINTEXT://outside:19092"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 168 * 3_600_000),
        ("log.retention.hours=2", 7_200_000),
        ("log.retention.hours=2\nlog.retention.minutes=3", 180_000),
        ("log.retention.hours=2\nlog.retention.minutes=3\nlog.retention.ms=4", 4),
        ("log.retention.ms=-5", -1),
        ("log.retention.hours=-7", -1),
    ],
)
def test_retention_in_its_three_units(text: str, expected: int) -> None:
    assert load_text(text).config.topic_default("retention.ms") == expected


def test_dynamic_values_beat_static_ones_and_their_synonyms() -> None:
    config = load_text("log.retention.ms=5\ncompression.type=lz4").config
    changed = config.with_dynamic({"compression.type": "zstd"}, {"compression.type": "gzip", "log.roll.ms": "7"})
    assert changed.string("compression.type") == "zstd"
    assert changed.integer("log.roll.ms") == 7
    assert changed.with_dynamic({}, {}).values == config.values
    assert config.values["log.roll.ms"] is None


def test_overrides_of_connections_per_address() -> None:
    config = load_text("max.connections.per.ip.overrides= 127.0.0.1:5, ::1:6").config
    assert config.max_connections_per_ip_overrides == {"127.0.0.1": 5, "::1": 6}


def test_a_file_is_read_as_java_reads_it_whatever_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"# gr\xf6\xdfe\nnode.id=gr\xfcn")
    ended = CliRunner().invoke(main, ["serve", "--config", str(file)])
    assert ended.exit_code == 1
    assert "node.id" in ended.output and "grün" in ended.output


def test_listeners_follow_the_advertised_ones_of_the_environment_whatever_a_file_says() -> None:
    text = "listeners=PLAINTEXT://0.0.0.0:9092\nadvertised.listeners=PLAINTEXT://localhost:9092"
    environ = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_LISTENERS": "",
    }
    found = load_text(text, environ).listeners
    assert [str(one) for one in found.bound] == ["PLAINTEXT://0.0.0.0:29092", "PLAINTEXT_HOST://0.0.0.0:9092"]
    assert [one.port for one in found.advertised] == [29092, 9092]


def test_an_empty_variable_is_unset() -> None:
    assert (
        load(environ={"KAFKA_LOG_RETENTION_MS": "", "KAFKA_NUM_PARTITIONS": ""}).config.integer("num.partitions") == 1
    )


@pytest.mark.parametrize(
    ("text", "wrong"), [("a:0", "a:0"), ("a:1:x", "a:1:x"), (":1:1", ":1:1"), ("a,b:1:1:compact:5", "b:1:1:compact:5")]
)
def test_topics_to_create_that_are_malformed_are_named(text: str, wrong: str) -> None:
    (line,) = problems("", f"odradek.create.topics={text}")
    assert line.startswith(f"odradek.create.topics: {wrong!r} is not name:partitions")


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("KAFKA_PORT", "tcp://10.0.0.1:9092", True),
        ("KAFKA_SERVICE_HOST", "10.0.0.1", True),
        ("ODRADEK_HTTP_PORT", "tcp://10.0.0.1:9404", True),
        ("ODRADEK_HTTP_PORT", "9404", False),
        ("KAFKA_PORT_9092_TCP_PORT", "9092", True),
        ("KAFKA_NUM_PARTITIONS", "3", False),
    ],
)
def test_service_links_are_told_from_settings(variable: str, value: str, expected: bool) -> None:
    assert is_service_link(variable, value) is expected


def test_a_typing_error_in_a_tests_settings_is_refused_and_elsewhere_it_has_no_effect() -> None:
    wrong = ("num.partition=3", "xyzzy=1", "ssl.protocol=TLS", "listener.name.a.ssl.protocol=x")
    assert problems("", "odradek.profile=test", *wrong) == (
        "num.partition: expected a name of Kafka's server.properties, or one of Odradek's own; "
        "did you mean num.partitions?",
        "xyzzy: expected a name of Kafka's server.properties, or one of Odradek's own",
    )
    assert len(load_text("num.partition=3", {"KAFKA_XYZZY": "1"}, ["odradek.profile=test"]).warnings) == 2
    assert len(load_text("", {}, ["odradek.profile=dev", *wrong]).warnings) == 4


IMAGES = ("listeners.properties", "listeners=PLAINTEXT://0.0.0.0:9092\nadvertised.listeners=PLAINTEXT://localhost:9092")
MAP = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT\n"


@pytest.mark.parametrize(
    ("file", "environ", "settings", "bound", "advertised"),
    [
        ("", {}, [], "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://localhost:9092"),
        ("", {"KAFKA_LISTENERS": "PLAINTEXT://:29092"}, [], "PLAINTEXT://:29092", "PLAINTEXT://:29092"),
        ("", {"KAFKA_CFG_LISTENERS": "INSIDE://b:1,PLAINTEXT://c:2"}, [], "INSIDE://b:1,PLAINTEXT://c:2", None),
        ("listeners=PLAINTEXT://b:9093", {}, [], "PLAINTEXT://b:9093", None),
        ("", {}, ["listeners=PLAINTEXT://b:9093"], "PLAINTEXT://b:9093", None),
        ("advertised.listeners=INSIDE://b:9093", {}, [], "INSIDE://0.0.0.0:9093", "INSIDE://b:9093"),
        ("", {}, ["advertised.listeners=INSIDE://b:9093"], "INSIDE://0.0.0.0:9093", "INSIDE://b:9093"),
        (
            "",
            {},
            ["advertised.listeners=INSIDE://localhost:9093"],
            "INSIDE://127.0.0.1:9093",
            "INSIDE://localhost:9093",
        ),
        (
            "advertised.listeners=PLAINTEXT://b:1",
            {"KAFKA_LISTENERS": "PLAINTEXT://:9092"},
            [],
            "PLAINTEXT://:9092",
            "PLAINTEXT://b:1",
        ),
    ],
)
def test_listeners_of_the_image_count_only_if_nothing_else_says_where_to_listen_or_connect(
    file: str, environ: dict[str, str], settings: list[str], bound: str, advertised: str | None
) -> None:
    loaded = load([("server.properties", MAP + file)], environ, settings, fallback=IMAGES)
    assert ",".join(map(str, loaded.listeners.bound)) == bound
    assert ",".join(map(str, loaded.listeners.advertised)) == (advertised or bound)
    assert loaded.warnings == ()


def test_the_dev_profile_advertises_localhost_for_every_interface_and_says_so() -> None:
    text = MAP + "listeners=CONTROLLER://0.0.0.0:1,PLAINTEXT://0.0.0.0:29092,INSIDE://b:2\nodradek.profile=dev\n"
    loaded = load_text(text + "controller.listener.names=CONTROLLER\nprocess.roles=broker,controller")
    assert ",".join(map(str, loaded.listeners.advertised)) == "PLAINTEXT://localhost:29092,INSIDE://b:2"
    assert any(warning.startswith("advertised.listeners is not set") for warning in loaded.warnings)
    assert (
        "clients cannot be told to connect to PLAINTEXT://0.0.0.0:1" in problems("listeners=PLAINTEXT://0.0.0.0:1")[0]
    )


def test_a_broker_of_a_cluster_never_advertises_localhost_by_itself() -> None:
    text = "listeners=PLAINTEXT://0.0.0.0:1\nodradek.profile=dev\nprocess.roles=broker\nnode.id=1\n"
    (problem,) = problems(text + "controller.quorum.bootstrap.servers=c:9093\ncontroller.listener.names=CONTROLLER")
    assert "clients cannot be told to connect to PLAINTEXT://0.0.0.0:1" in problem


def test_a_controller_alone_has_no_listener_of_the_image() -> None:
    environ = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "controller",
        "KAFKA_LISTENERS": "CONTROLLER://:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@controller:9093",
    }
    listeners = load([("image", "odradek.profile=dev")], environ, fallback=IMAGES).listeners
    assert (listeners.bound, [str(one) for one in listeners.controllers]) == ((), ["CONTROLLER://:9093"])
