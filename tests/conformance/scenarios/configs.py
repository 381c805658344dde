"""DescribeConfigs 1-4, AlterConfigs 0-2, IncrementalAlterConfigs 0-1, ListConfigResources 0-1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.runner import Talk, scenario

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_INTEREST = (
    "retention.ms",
    "max.message.bytes",
    "cleanup.policy",
    "compression.type",
    "message.timestamp.type",
    "segment.bytes",
    "min.insync.replicas",
    "leader.replication.throttled.replicas",
)


def describe(t: Talk, step: str, v: int, kind: int, name: str, keys: Any = None, **fields: Any) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return t.call(step, "describe_configs", v, {"resources": [resource]} | fields)


def state(t: Talk, step: str, topic: str) -> None:
    """What the topic's own settings are, after the broker has taken them over."""
    describe(t, step, 4, TOPIC, topic, list(OF_INTEREST))


@scenario("describe_configs", range(1, 5))
def topics(t: Talk, v: int) -> None:
    a = t.topic("a", retention_ms="1000", cleanup_policy="compact,delete", compression_type="gzip")
    describe(t, "all", v, TOPIC, a.name)
    describe(t, "some", v, TOPIC, a.name, ["retention.ms", "segment.bytes"])
    describe(t, "an unknown key", v, TOPIC, a.name, ["no.such", "retention.ms"])
    describe(t, "no keys", v, TOPIC, a.name, [])
    describe(t, "key twice", v, TOPIC, a.name, ["retention.ms", "retention.ms"])
    describe(t, "synonyms", v, TOPIC, a.name, list(OF_INTEREST), include_synonyms=True)
    if v >= 3:
        describe(t, "documentation", v, TOPIC, a.name, None, include_documentation=True)
        describe(t, "all synonyms", v, TOPIC, a.name, None, include_synonyms=True)
    describe(t, "unknown topic", v, TOPIC, t.name("ghost"))
    describe(t, "invalid name", v, TOPIC, "a b")
    describe(t, "empty name", v, TOPIC, "")
    many = [
        {"resource_type": TOPIC, "resource_name": n, "configuration_keys": ["retention.ms"]}
        for n in (a.name, t.name("ghost"))
    ]
    t.call("two", "describe_configs", v, {"resources": many})
    t.call("one twice", "describe_configs", v, {"resources": [many[0], many[0]]})
    t.call("none", "describe_configs", v, {"resources": []})


BROKER_KEYS = [
    "log.retention.ms",
    "log.retention.hours",
    "num.partitions",
    "message.max.bytes",
    "auto.create.topics.enable",
    "num.io.threads",
    "node.id",
    "log.cleaner.threads",
    "log.flush.interval.messages",
    "compression.type",
    "max.connections",
    "connections.max.idle.ms",
    "ssl.keystore.password",
    "log.segment.bytes",
    "log.cleanup.policy",
    "default.replication.factor",
    "fetch.max.bytes",
    "socket.request.max.bytes",
    "log.message.timestamp.type",
    "min.insync.replicas",
    "broker.id",
    "unclean.leader.election.enable",
]


@scenario("describe_configs", range(1, 5))
def brokers(t: Talk, v: int) -> None:
    describe(t, "keys of broker 1", v, BROKER, "1", BROKER_KEYS)
    describe(t, "keys with synonyms", v, BROKER, "1", BROKER_KEYS, include_synonyms=True)
    if v >= 3:
        describe(
            t, "documentation", v, BROKER, "1", ["num.io.threads", "log.segment.bytes"], include_documentation=True
        )
    describe(t, "default broker", v, BROKER, "", BROKER_KEYS)
    describe(t, "all of the default broker", v, BROKER, "")
    for name in ("2", "x", "-1", "01"):
        describe(t, f"broker {name!r}", v, BROKER, name, ["num.io.threads"])
    body = {"resources": [{"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}]}
    t.call("names of all of broker 1", "describe_configs", v, body, pick=_broker_names)


def _broker_names(answer: dict[str, Any]) -> Any:
    names = [c["name"] for c in answer["results"][0]["configs"]]
    return sorted(name for name in names if not name.startswith("odradek."))


@scenario("describe_configs", range(1, 5))
def other_resources(t: Talk, v: int) -> None:
    for kind in (0, 1, 3, 5, 64, -1, 127):
        describe(t, f"type {kind}", v, kind, "x")
    describe(t, "group", v, GROUP, t.prefix + "g")
    describe(t, "group with an empty name", v, GROUP, "")
    describe(t, "client metrics", v, METRICS, t.prefix + "m")
    describe(t, "client metrics, empty name", v, METRICS, "")
    describe(t, "loggers of broker 2", v, LOGGER, "2")
    describe(t, "loggers of the default broker", v, LOGGER, "")
    describe(t, "loggers of x", v, LOGGER, "x")
    body = {"resources": [{"resource_type": LOGGER, "resource_name": "1", "configuration_keys": ["root", "no.such"]}]}
    t.call("a logger", "describe_configs", v, body, pick=_without_configs)


def _without_configs(answer: dict[str, Any]) -> Any:
    return [{k: v for k, v in result.items() if k != "configs"} for result in answer["results"]]


def alter(
    t: Talk, step: str, v: int, kind: int, name: str, configs: list[tuple[str, str | None]], **fields: Any
) -> Any:
    wanted = [{"name": k, "value": value} for k, value in configs]
    resource = {"resource_type": kind, "resource_name": name, "configs": wanted}
    return t.call(step, "alter_configs", v, {"resources": [resource], "validate_only": False} | fields)


def _settled(t: Talk, topic: str, key: str, value: str) -> None:
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": [key]}

    def there() -> bool:
        answer = t.main.call("describe_configs", 4, {"resources": [resource]})
        return bool(answer["results"][0]["configs"][0]["value"] == value)

    t.until(f"{key}={value}", there)


@scenario("alter_configs", range(0, 3))
def alters(t: Talk, v: int) -> None:
    a = t.topic("a", retention_ms="1000", cleanup_policy="compact")
    alter(t, "one set, the rest unset", v, TOPIC, a.name, [("max.message.bytes", "1234")])
    _settled(t, a.name, "max.message.bytes", "1234")
    state(t, "after", a.name)
    alter(t, "validate only", v, TOPIC, a.name, [("max.message.bytes", "99")], validate_only=True)
    alter(t, "wrong value", v, TOPIC, a.name, [("max.message.bytes", "x")])
    alter(t, "wrong value, validate only", v, TOPIC, a.name, [("max.message.bytes", "x")], validate_only=True)
    alter(t, "unknown key", v, TOPIC, a.name, [("no.such", "1")])
    alter(t, "null value", v, TOPIC, a.name, [("retention.ms", None)])
    alter(t, "same key twice", v, TOPIC, a.name, [("retention.ms", "5"), ("retention.ms", "6")])
    alter(t, "unknown topic", v, TOPIC, t.name("ghost"), [("retention.ms", "5")])
    alter(t, "invalid topic name", v, TOPIC, "a b", [("retention.ms", "5")])
    alter(t, "empty topic name", v, TOPIC, "", [("retention.ms", "5")])
    alter(t, "nothing: all unset", v, TOPIC, a.name, [])
    _settled(t, a.name, "max.message.bytes", "1048588")
    state(t, "in the end", a.name)
    for kind in (0, 1, 3, 64):
        alter(t, f"type {kind}", v, kind, "x", [("retention.ms", "5")])
    alter(t, "a logger", v, LOGGER, "1", [("root", "INFO")])
    alter(t, "a broker that is not", v, BROKER, "77", [("log.cleaner.threads", "2")], validate_only=True)
    alter(t, "a broker of no number", v, BROKER, "x", [("log.cleaner.threads", "2")], validate_only=True)
    alter(t, "a broker's read-only key", v, BROKER, "1", [("num.partitions", "2")], validate_only=True)
    alter(t, "a broker's key, validate only", v, BROKER, "1", [("log.cleaner.threads", "2")], validate_only=True)
    one = {"resource_type": TOPIC, "resource_name": a.name, "configs": [{"name": "retention.ms", "value": "7"}]}
    t.call("resource twice", "alter_configs", v, {"resources": [one, one]})
    t.call("none", "alter_configs", v, {"resources": []})


@scenario("incremental_alter_configs", range(0, 2))
def increments(t: Talk, v: int) -> None:
    a = t.topic("a", retention_ms="1000", cleanup_policy="compact")

    def change(step: str, kind: int, name: str, *ops: tuple[str, int, str | None], **fields: Any) -> None:
        wanted = [{"name": k, "config_operation": op, "value": value} for k, op, value in ops]
        resource = {"resource_type": kind, "resource_name": name, "configs": wanted}
        body = {"resources": [resource], "validate_only": False} | fields
        t.call(step, "incremental_alter_configs", v, body)

    _one_topic(t, change, a.name)
    _refused_of_a_topic(t, change, a.name)
    _other_resources(t, change)
    _several_at_once(t, v, a.name)


def _one_topic(t: Talk, change: Callable[..., None], topic: str) -> None:
    change("set", TOPIC, topic, ("max.message.bytes", SET, "1234"))
    change("set two", TOPIC, topic, ("max.message.bytes", SET, "1235"), ("retention.ms", SET, "2000"))
    change("append", TOPIC, topic, ("cleanup.policy", APPEND, "delete"))
    change("append what is there", TOPIC, topic, ("cleanup.policy", APPEND, "delete"))
    _settled(t, topic, "cleanup.policy", "compact,delete")
    state(t, "so far", topic)
    change("subtract", TOPIC, topic, ("cleanup.policy", SUBTRACT, "compact"))
    change("subtract what is not there", TOPIC, topic, ("cleanup.policy", SUBTRACT, "compact"))
    change("append to a default", TOPIC, topic, ("leader.replication.throttled.replicas", APPEND, "0:1"))
    change("append a second", TOPIC, topic, ("leader.replication.throttled.replicas", APPEND, "1:1"))
    change("append to no list", TOPIC, topic, ("retention.ms", APPEND, "1"))
    change("subtract from no list", TOPIC, topic, ("retention.ms", SUBTRACT, "1"))
    change("append a wrong one", TOPIC, topic, ("cleanup.policy", APPEND, "shred"))
    change("delete", TOPIC, topic, ("retention.ms", DELETE, None))
    change("delete what is not set", TOPIC, topic, ("retention.ms", DELETE, None))
    change("delete with a value", TOPIC, topic, ("retention.ms", DELETE, "5"))
    change("set to null", TOPIC, topic, ("retention.ms", SET, None))
    change("append null", TOPIC, topic, ("cleanup.policy", APPEND, None))
    change("set to nothing", TOPIC, topic, ("retention.ms", SET, ""))


def _refused_of_a_topic(t: Talk, change: Callable[..., None], topic: str) -> None:
    """Most of these are refused; what counts shows in the end."""
    # An operation that is none breaks Kafka's channel to its controller, and answers of others are lost: not asked.
    change("same key twice", TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    change("set and delete of one key", TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None))
    change("unknown key", TOPIC, topic, ("no.such", SET, "1"))
    change("unknown key deleted", TOPIC, topic, ("no.such", DELETE, None))
    change("wrong value", TOPIC, topic, ("max.message.bytes", SET, "x"))
    change("wrong value beside a good one", TOPIC, topic, ("max.message.bytes", SET, "x"), ("retention.ms", SET, "9"))
    change("validate only", TOPIC, topic, ("max.message.bytes", SET, "7"), validate_only=True)
    change("nothing", TOPIC, topic)
    change("unknown topic", TOPIC, t.name("ghost"), ("retention.ms", SET, "5"))
    change("invalid topic name", TOPIC, "a b", ("retention.ms", SET, "5"))
    change("empty topic name", TOPIC, "", ("retention.ms", SET, "5"))
    change("all of cleanup subtracted", TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"))
    change("last", TOPIC, topic, ("max.message.bytes", SET, "4321"))
    _settled(t, topic, "max.message.bytes", "4321")
    state(t, "in the end", topic)
    for kind in (0, 1, 3, 64):
        change(f"type {kind}", kind, "x", ("retention.ms", SET, "5"))


def _other_resources(t: Talk, change: Callable[..., None]) -> None:
    """Brokers, loggers, client metrics and groups; nothing is changed."""
    dry = {"validate_only": True}
    change("broker", BROKER, "1", ("log.cleaner.threads", SET, "2"), **dry)
    change("default broker", BROKER, "", ("log.cleaner.threads", SET, "2"), **dry)
    change("another broker", BROKER, "77", ("log.cleaner.threads", SET, "2"), **dry)
    change("broker of no number", BROKER, "x", ("log.cleaner.threads", SET, "2"), **dry)
    change("read-only key", BROKER, "1", ("num.partitions", SET, "2"), **dry)
    change("read-only key, default broker", BROKER, "", ("num.partitions", SET, "2"), **dry)
    change("broker, wrong value", BROKER, "1", ("log.cleaner.threads", SET, "x"), **dry)
    change("broker, out of range", BROKER, "1", ("log.cleaner.threads", SET, "-1"), **dry)
    change("broker, unknown key", BROKER, "1", ("no.such", SET, "1"), **dry)
    change("broker, retention", BROKER, "1", ("log.retention.ms", SET, "1000"), **dry)
    change("per-broker key for all", BROKER, "", ("listeners", SET, "PLAINTEXT://:1"), **dry)
    change("logger", LOGGER, "1", ("root", SET, "INFO"), **dry)
    change("logger, wrong level", LOGGER, "1", ("root", SET, "LOUD"), **dry)
    change("logger that is not", LOGGER, "1", ("no.such.logger.at.all", SET, "INFO"), **dry)
    change("logger of another broker", LOGGER, "2", ("root", SET, "INFO"), **dry)
    change("logger append", LOGGER, "1", ("root", APPEND, "INFO"), **dry)
    change("metrics", METRICS, t.prefix + "m", ("interval.ms", SET, "1000"), **dry)
    change("metrics, wrong", METRICS, t.prefix + "m", ("interval.ms", SET, "1"), **dry)
    change("metrics, unknown key", METRICS, t.prefix + "m", ("no.such", SET, "1"), **dry)
    change("group", GROUP, t.prefix + "g", ("consumer.session.timeout.ms", SET, "50000"), **dry)
    change("group, wrong", GROUP, t.prefix + "g", ("consumer.session.timeout.ms", SET, "1"), **dry)
    change("group, unknown key", GROUP, t.prefix + "g", ("no.such", SET, "1"), **dry)


def _several_at_once(t: Talk, v: int, topic: str) -> None:
    one = {
        "resource_type": TOPIC,
        "resource_name": topic,
        "configs": [{"name": "retention.ms", "config_operation": SET, "value": "7"}],
    }
    t.call("resource twice", "incremental_alter_configs", v, {"resources": [one, one]})
    ghost = one | {"resource_name": t.name("ghost")}
    t.call("one known", "incremental_alter_configs", v, {"resources": [one, ghost]})
    t.call("none", "incremental_alter_configs", v, {"resources": []})


@scenario("list_config_resources", range(0, 2))
def resources(t: Talk, v: int) -> None:
    t.topic("a")

    def own(answer: dict[str, Any]) -> Any:
        ours = (r for r in answer["config_resources"] if r["resource_name"].startswith(t.prefix))
        brokers = (r for r in answer["config_resources"] if r.get("resource_type") in (BROKER, LOGGER))
        found = [*ours, *brokers]
        return {"error_code": answer["error_code"], "config_resources": found}

    def ask(step: str, *kinds: int) -> None:
        t.call(step, "list_config_resources", v, {"resource_types": list(kinds)}, pick=own)

    ask("all")
    for kind in (TOPIC, BROKER, LOGGER, METRICS, GROUP, 0, 1, 64, -1):
        ask(f"type {kind}", kind)
    ask("two types", TOPIC, BROKER)
    ask("one good, one unknown", TOPIC, 99)
    ask("one twice", BROKER, BROKER)


@scenario("incremental_alter_configs", (1,))
def set_told_and_unset(t: Talk, v: int) -> None:
    """A broker's own setting, a group's and a client metrics subscription, from making to taking away."""

    def change(step: str, kind: int, name: str, key: str, op: int, value: str | None) -> None:
        wanted = [{"name": key, "config_operation": op, "value": value}]
        resource = {"resource_type": kind, "resource_name": name, "configs": wanted}
        t.call(step, "incremental_alter_configs", v, {"resources": [resource], "validate_only": False})

    def told(step: str, kind: int, name: str, key: str, value: str) -> None:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}

        def there() -> bool:
            answer = t.main.call("describe_configs", 4, {"resources": [resource]})
            configs = answer["results"][0]["configs"]
            return bool(configs and configs[0]["value"] == value)

        t.until(step, there)
        describe(t, step, 4, kind, name, [key], include_synonyms=True)

    for what, kind, name, key, value, default in (
        ("broker", BROKER, "1", "log.cleaner.backoff.ms", "14000", "15000"),
        ("group", GROUP, t.prefix + "g", "consumer.session.timeout.ms", "50000", "45000"),
        ("group alone", GROUP, t.prefix + "g", "share.auto.offset.reset", "earliest", "latest"),
    ):
        change(f"{what}: set", kind, name, key, SET, value)
        told(f"{what}: told", kind, name, key, value)
        change(f"{what}: unset", kind, name, key, DELETE, None)
        told(f"{what}: told after", kind, name, key, default)
    rate = "leader.replication.throttled.rate"
    change("rate: set", BROKER, "1", rate, SET, "1000000000")
    told("rate: told", BROKER, "1", rate, "1000000000")
    change("rate: unset", BROKER, "1", rate, DELETE, None)
    metrics = t.prefix + "m"
    change("metrics: set", METRICS, metrics, "interval.ms", SET, "60000")
    told("metrics: told", METRICS, metrics, "interval.ms", "60000")

    def own(answer: dict[str, Any]) -> Any:
        return [r for r in answer["config_resources"] if r["resource_name"].startswith(t.prefix)]

    t.call("metrics: listed", "list_config_resources", 0, {}, pick=own)
    change("metrics: set a list", METRICS, metrics, "metrics", SET, "org.apache.kafka.consumer.,*")
    change("metrics: set a pattern", METRICS, metrics, "match", SET, "client_id=a.*")
    change("metrics: set a wrong pattern", METRICS, metrics, "match", SET, "client_id=[")
    change("metrics: set a pattern for nothing", METRICS, metrics, "match", SET, "no_such=a")
    for key in ("interval.ms", "metrics", "match"):
        change(f"metrics: unset {key}", METRICS, metrics, key, DELETE, None)
