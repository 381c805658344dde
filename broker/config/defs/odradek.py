"""Configurations that Kafka does not have, which start with `odradek.` or `schema.registry.`, and profiles.

A profile is settings for a purpose, which `odradek.profile` names; whatever is set explicitly wins over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from broker.config.definition import (
    INT_MAX,
    SECOND_MS,
    Rows,
    at_least,
    boolean,
    entries,
    integer,
    long,
    one_of,
    password,
    string,
)

_QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
_FREQUENT_CHECKS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "2000",
    "producer.id.expiration.check.interval.ms": "2000",
    "offsets.retention.check.interval.ms": "2000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "log.segment.delete.delay.ms": "0",
}
"""What has expired goes soon after: the checks are minutes apart in Kafka."""
_SHORT_TIMEOUTS_ALLOWED = {
    "group.min.session.timeout.ms": "10",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.streams.min.session.timeout.ms": "100",
    "group.streams.min.heartbeat.interval.ms": "10",
    "group.streams.heartbeat.interval.ms": "100",
    "group.share.min.session.timeout.ms": "100",
    "group.share.min.heartbeat.interval.ms": "10",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
}
"""Sessions and locks may be shorter than Kafka allows, and consumer, share and streams groups (KIP-848, KIP-932,
KIP-1071) rebalance in tenths of a second: each step of a rebalance takes a heartbeat."""

PROFILES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "kafka": {},
        "dev": _QUICK_GROUPS,
        "test": {
            **_QUICK_GROUPS,
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            **_FREQUENT_CHECKS,
            **_SHORT_TIMEOUTS_ALLOWED,
            "odradek.fetch.max.wait.ms": "20",
            "odradek.fsync": "false",
        },
    }
)

PURPOSES: Mapping[str, str] = MappingProxyType(
    {
        "kafka": "Kafka's defaults.",
        "dev": "A broker on a developer's machine: new groups start at once. `make run` and the container have it.",
        "test": "Test suites: no waits, and no syncing of files that nobody keeps; on the command line, a name that "
        "nobody knows is refused. `odradek.Broker` and the pytest plugin have it.",
    }
)

ODRADEK: Rows = {
    "odradek.profile": string(
        "kafka",
        "Settings for a purpose, see [Profiles](#profiles); what is set explicitly wins over them.",
        one_of(*PROFILES),
    ),
    "odradek.http.port": integer(
        9404,
        "Port of `/metrics`, `/healthz`, `/v1/status/ready` and the console; 0 takes a free one, -1 serves none.",
        at_least(-1, 65535),
    ),
    "odradek.console": boolean(
        True, "Whether the HTTP port has the console, pages about the broker for a browser, at `/`."
    ),
    "odradek.console.write": boolean(
        False, "Whether the console lets its users change something, such as delete a topic; otherwise it only shows."
    ),
    "odradek.console.hosts": entries(
        (),
        "Names by which the console, `/metrics`, `/admin/loggers` and a control interface without a token are "
        "reached, besides addresses, `localhost`, names without a dot and those that the listeners advertise; `*` "
        "stands for any. Where users of the console log in, it accepts every name.",
    ),
    "odradek.console.login.listeners": entries(
        (),
        "Listeners whose users log in at the console with names and passwords; if empty, all with PLAIN or SCRAM. "
        "Never one that requires certificates of clients, or is for controllers, or for brokers (unless there is no "
        "other).",
    ),
    "odradek.console.schema.registry": password(
        None,
        "URL of a schema registry, with a name and a password if it wants them, by which the console shows Avro, "
        "Protobuf, and JSON with a schema, where the node has no registry of its own. It needs "
        "`pip install '/path/to/odradek[registry]'`.",
    ),
    "odradek.http.host": string("127.0.0.1", "Address on which `odradek.http.port` is opened."),
    "odradek.http.trusted.proxies": entries(
        (),
        "Addresses and networks of the proxies that may say by `X-Forwarded-For` and `X-Forwarded-Proto` for whom "
        "they ask. Where users log in at the console, what comes through any other proxy is refused, if it can be "
        "seen.",
    ),
    "odradek.http.max.connections": integer(
        200,
        "Connections of the HTTP port at one time, and of the control interface; never more than an eighth of the "
        "process's open files. With one more, one of the address that has most is closed, which waits for no answer "
        "if there is such a one.",
        at_least(1),
        "connections",
    ),
    "odradek.http.max.connections.per.ip": integer(
        100, "As `odradek.http.max.connections`, for each address.", at_least(1), "connections"
    ),
    "odradek.metrics.max.clients": integer(
        1000,
        "Groups, and clients, that have series of their own in a metric; the rest are summed as `other`.",
        at_least(1),
    ),
    "odradek.metrics.max.topics": integer(
        1000, "Topics that have series of their own in a metric; the rest are summed as `other`.", at_least(1)
    ),
    "odradek.otlp.endpoint": string(
        None,
        "URL to which metrics are sent by OpenTelemetry's protocol (OTLP over HTTP), such as "
        "`http://127.0.0.1:4318/v1/metrics`. Needs `pip install '/path/to/odradek[otlp]'`.",
    ),
    "odradek.otlp.interval.ms": integer(
        60 * SECOND_MS, "How often metrics are sent to `odradek.otlp.endpoint`.", at_least(100)
    ),
    "odradek.log.format": string(
        "auto",
        "How log lines are written: for people, as JSON, or for people on a terminal and in the journal, else JSON.",
        one_of("auto", "console", "json"),
    ),
    "odradek.log.level": string(
        "info", "Least severe log lines that are written.", one_of("debug", "info", "warning", "error")
    ),
    "odradek.loop": string(
        "auto",
        "Event loop: uvloop, plain asyncio, or uvloop where it is installed.",
        one_of("auto", "uvloop", "asyncio"),
    ),
    "odradek.cluster.id": string(
        None, "Cluster id for an empty data folder, instead of a random one; the environment's CLUSTER_ID sets it too."
    ),
    "odradek.create.topics": string(
        "",
        "Topics that are made at the start if they do not exist: name:partitions:replicas:cleanup.policy, of which "
        "all but the name may be left out; separated by commas. The environment's KAFKA_CREATE_TOPICS sets it too.",
    ),
    "odradek.create.acls": string(
        "",
        "ACLs that are made at the start if they do not exist, separated by semicolons: `User:app READ,WRITE TOPIC "
        "orders-*`, `app DENY ALL CLUSTER`, `app READ GROUP * from 10.0.0.0/8`. A name that ends with `*` is a prefix.",
    ),
    "odradek.users.file": string(
        None,
        "File with the users of PLAIN and SCRAM, a line `name:password` each, besides those of JAAS lines and of the "
        "metadata; read again when it changes. `sasl.enabled.mechanisms` then is PLAIN, SCRAM-SHA-256 and "
        "SCRAM-SHA-512 by default. Only the broker's own account should be able to read it.",
    ),
    "odradek.users": password(
        None,
        "The same users themselves, a line each, in place of a file or besides it; for one listener alone as "
        "`listener.name.<listener>.odradek.users`.",
    ),
    "odradek.tls.folder": string(
        None,
        "For tests and trials: the folder in which the broker makes itself an authority and a certificate, which are "
        "used where no keystore or truststore is set. Clients trust its `ca.pem`.",
    ),
    "odradek.tls.clients": entries(
        (), "Names for each of which `client-NAME.pem`, a key and a certificate, is made in `odradek.tls.folder`."
    ),
    "odradek.authentication.timeout.ms": long(
        30 * SECOND_MS, "Time in which a connection must finish its TLS handshake and authenticate.", at_least(1)
    ),
    "odradek.max.unauthenticated.connections": integer(
        1000,
        "Connections at one time that have not finished their TLS handshake or not authenticated; with one more, the "
        "oldest of the address that has most is closed.",
        at_least(1),
        "connections",
    ),
    "odradek.delegation.token.max.per.owner": integer(
        2000,
        "Delegation tokens of one owner at one time; one more is refused with POLICY_VIOLATION.",
        at_least(1),
        "tokens",
    ),
    "odradek.delegation.token.max.renewers": integer(
        100, "Renewers of one delegation token; one with more is refused with INVALID_REQUEST.", at_least(0), "renewers"
    ),
    "odradek.snapshot": string(
        None, "The folder of a snapshot with which new, empty folders of log.dirs begin (docs/testing-with-odradek.md)."
    ),
    "odradek.backup.folder": string(
        None,
        "The folder in which `odradek backup create -b` makes backups, for whom ACLs allow ALTER on the cluster; "
        "without an authorizer that is every client. By default clients cannot have backups made.",
    ),
    "odradek.fetch.max.wait.ms": integer(
        INT_MAX,
        "Longest time that a consumer's Fetch waits for data, whatever its `max.wait`: a consumer is sooner free for "
        "something else, and asks more often.",
        at_least(0),
    ),
    "odradek.fsync": boolean(
        True,
        "Whether files are synced to the device. Without it a power failure may damage the data, a crash of the "
        "broker does not; where `log.flush.interval.messages` or `log.flush.interval.ms` is set, they are synced.",
    ),
    "odradek.control": string(
        "",
        "HOST:PORT of the control interface of the test kit (docs/testing-with-odradek.md); port 0 is a free one, and "
        "an empty value opens none. Not for production: it injects faults and moves the clock.",
    ),
    "odradek.control.token": password(
        None,
        "What requests to the control interface must have as `Authorization: Bearer`; needed where it can be reached "
        "from outside the machine.",
    ),
}

_LEVELS = (
    "none",
    "backward",
    "backward_transitive",
    "forward",
    "forward_transitive",
    "full",
    "full_transitive",
)

REGISTRY: Rows = {
    "schema.registry.listeners": entries(
        (),
        "Addresses of the schema registry, such as `http://127.0.0.1:8081` or `https://0.0.0.0:8081`; port 0 is a free "
        "one, and an empty value means that there is no registry ([registry.md](registry.md)). Needs "
        "`pip install '/path/to/odradek[registry]'`. Keys and certificates of `https` are those of a listener with the "
        "name `registry`: `listener.name.registry.ssl.keystore.location`, or without that `ssl.keystore.location`.",
        of_plugin=True,
    ),
    "schema.registry.kafkastore.topic": string(
        "_schemas",
        "The topic that holds the schemas, in the records of Confluent's registry; made when it is needed.",
        of_plugin=True,
    ),
    "schema.registry.kafkastore.topic.replication.factor": integer(
        3,
        "Replicas of that topic when it is made, or as many as there are brokers.",
        at_least(1, 32767),
        of_plugin=True,
    ),
    "schema.registry.schema.compatibility.level": string(
        "backward",
        "The level of subjects for which none was set.",
        one_of(*_LEVELS, ignore_case=True),
        of_plugin=True,
    ),
    "schema.registry.mode.mutability": boolean(True, "Whether clients may set modes.", of_plugin=True),
}
"""The schema registry's: `schema.registry.` and the name that Confluent's registry has for it."""
