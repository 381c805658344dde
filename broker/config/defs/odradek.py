"""Configurations that Kafka does not have; all start with `odradek.`."""

from __future__ import annotations

from broker.config.definition import INT_MAX, SECOND_MS, ConfigDef, ConfigType, at_least, one_of
from broker.config.profiles import PROFILES

STRING = ConfigType.STRING

ODRADEK_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "odradek.profile",
        STRING,
        "kafka",
        "Settings for a purpose, see [Profiles](#profiles); what is set explicitly wins over them.",
        one_of(*PROFILES),
    ),
    ConfigDef(
        "odradek.http.port",
        ConfigType.INT,
        9404,
        "Port of `/metrics`, `/healthz`, `/v1/status/ready` and the console; 0 takes a free one, -1 serves none.",
        at_least(-1, 65535),
    ),
    ConfigDef(
        "odradek.console",
        ConfigType.BOOLEAN,
        True,
        "Whether the HTTP port has the console, pages about the broker for a browser, at `/`.",
    ),
    ConfigDef(
        "odradek.console.write",
        ConfigType.BOOLEAN,
        False,
        "Whether the console lets its users change something, such as delete a topic; otherwise it only shows.",
    ),
    ConfigDef(
        "odradek.console.hosts",
        ConfigType.LIST,
        (),
        "Names by which the console, `/metrics`, `/admin/loggers` and a control interface without a token are reached, "
        "besides addresses, `localhost`, names without a dot and those that the listeners advertise; `*` stands for "
        "any. Where users of the console log in, it accepts every name.",
    ),
    ConfigDef(
        "odradek.console.login.listeners",
        ConfigType.LIST,
        (),
        "Listeners whose users log in at the console with names and passwords; if empty, all with PLAIN or SCRAM. "
        "Never one that requires certificates of clients, or is for controllers, or for brokers (unless there is no "
        "other).",
    ),
    ConfigDef(
        "odradek.console.schema.registry",
        ConfigType.PASSWORD,
        None,
        "URL of a schema registry, with a name and a password if it wants them, by which the console shows Avro, and "
        "JSON with a schema. Avro needs `pip install '/path/to/odradek[avro]'`.",
    ),
    ConfigDef("odradek.http.host", STRING, "127.0.0.1", "Address on which `odradek.http.port` is opened."),
    ConfigDef(
        "odradek.http.trusted.proxies",
        ConfigType.LIST,
        (),
        "Addresses and networks of the proxies that may say by `X-Forwarded-For` and `X-Forwarded-Proto` for whom they "
        "ask. Where users log in at the console, what comes through any other proxy is refused, if it can be seen.",
    ),
    ConfigDef(
        "odradek.http.max.connections",
        ConfigType.INT,
        200,
        "Connections of the HTTP port at one time, and of the control interface; never more than an eighth of the "
        "process's open files. With one more, one of the address that has most is closed, which waits for no answer if "
        "there is such a one.",
        at_least(1),
        "connections",
    ),
    ConfigDef(
        "odradek.http.max.connections.per.ip",
        ConfigType.INT,
        100,
        "As `odradek.http.max.connections`, for each address.",
        at_least(1),
        "connections",
    ),
    ConfigDef(
        "odradek.metrics.max.clients",
        ConfigType.INT,
        1000,
        "Groups, and clients, that have series of their own in a metric; the rest are summed as `other`.",
        at_least(1),
    ),
    ConfigDef(
        "odradek.metrics.max.topics",
        ConfigType.INT,
        1000,
        "Topics that have series of their own in a metric; the rest are summed as `other`.",
        at_least(1),
    ),
    ConfigDef(
        "odradek.otlp.endpoint",
        STRING,
        None,
        "URL to which metrics are sent by OpenTelemetry's protocol (OTLP over HTTP), such as "
        "`http://127.0.0.1:4318/v1/metrics`. Needs `pip install '/path/to/odradek[otlp]'`.",
    ),
    ConfigDef(
        "odradek.otlp.interval.ms",
        ConfigType.INT,
        60 * SECOND_MS,
        "How often metrics are sent to `odradek.otlp.endpoint`.",
        at_least(100),
    ),
    ConfigDef(
        "odradek.log.format",
        STRING,
        "auto",
        "How log lines are written: for people, as JSON, or for people on a terminal and in the journal, else JSON.",
        one_of("auto", "console", "json"),
    ),
    ConfigDef(
        "odradek.log.level",
        STRING,
        "info",
        "Least severe log lines that are written.",
        one_of("debug", "info", "warning", "error"),
    ),
    ConfigDef(
        "odradek.loop",
        STRING,
        "auto",
        "Event loop: uvloop, plain asyncio, or uvloop where it is installed.",
        one_of("auto", "uvloop", "asyncio"),
    ),
    ConfigDef(
        "odradek.cluster.id",
        STRING,
        None,
        "Cluster id for an empty data folder, instead of a random one; the environment's CLUSTER_ID sets it too.",
    ),
    ConfigDef(
        "odradek.create.topics",
        STRING,
        "",
        "Topics that are made at the start if they do not exist: name:partitions:replicas:cleanup.policy, of which all "
        "but the name may be left out; separated by commas. The environment's KAFKA_CREATE_TOPICS sets it too.",
    ),
    ConfigDef(
        "odradek.create.acls",
        STRING,
        "",
        "ACLs that are made at the start if they do not exist, separated by semicolons: `User:app READ,WRITE TOPIC "
        "orders-*`, `app DENY ALL CLUSTER`, `app READ GROUP * from 10.0.0.0/8`. A name that ends with `*` is a prefix.",
    ),
    ConfigDef(
        "odradek.users.file",
        STRING,
        None,
        "File with the users of PLAIN and SCRAM, a line `name:password` each, besides those of JAAS lines and of the "
        "metadata; read again when it changes. `sasl.enabled.mechanisms` then is PLAIN, SCRAM-SHA-256 and "
        "SCRAM-SHA-512 by default. Only the broker's own account should be able to read it.",
    ),
    ConfigDef(
        "odradek.users",
        ConfigType.PASSWORD,
        None,
        "The same users themselves, a line each, in place of a file or besides it; for one listener alone as "
        "`listener.name.<listener>.odradek.users`.",
    ),
    ConfigDef(
        "odradek.tls.folder",
        STRING,
        None,
        "For tests and trials: the folder in which the broker makes itself an authority and a certificate, which are "
        "used where no keystore or truststore is set. Clients trust its `ca.pem`.",
    ),
    ConfigDef(
        "odradek.tls.clients",
        ConfigType.LIST,
        (),
        "Names for each of which `client-NAME.pem`, a key and a certificate, is made in `odradek.tls.folder`.",
    ),
    ConfigDef(
        "odradek.authentication.timeout.ms",
        ConfigType.LONG,
        30 * SECOND_MS,
        "Time in which a connection must finish its TLS handshake and authenticate.",
        at_least(1),
        "ms",
    ),
    ConfigDef(
        "odradek.max.unauthenticated.connections",
        ConfigType.INT,
        1000,
        "Connections at one time that have not finished their TLS handshake or not authenticated; with one more, the "
        "oldest of the address that has most is closed.",
        at_least(1),
        "connections",
    ),
    ConfigDef(
        "odradek.delegation.token.max.per.owner",
        ConfigType.INT,
        2000,
        "Delegation tokens of one owner at one time; one more is refused with POLICY_VIOLATION.",
        at_least(1),
        "tokens",
    ),
    ConfigDef(
        "odradek.delegation.token.max.renewers",
        ConfigType.INT,
        100,
        "Renewers of one delegation token; one with more is refused with INVALID_REQUEST.",
        at_least(0),
        "renewers",
    ),
    ConfigDef(
        "odradek.snapshot",
        STRING,
        None,
        "The folder of a snapshot with which new, empty folders of log.dirs begin (docs/testing-with-odradek.md).",
    ),
    ConfigDef(
        "odradek.backup.folder",
        STRING,
        None,
        "The folder in which `odradek backup create -b` makes backups, for whom ACLs allow ALTER on the cluster; "
        "without an authorizer that is every client. By default clients cannot have backups made.",
    ),
    ConfigDef(
        "odradek.fetch.max.wait.ms",
        ConfigType.INT,
        INT_MAX,
        "Longest time that a consumer's Fetch waits for data, whatever its `max.wait`: a consumer is sooner free for "
        "something else, and asks more often.",
        at_least(0),
        "ms",
    ),
    ConfigDef(
        "odradek.fsync",
        ConfigType.BOOLEAN,
        True,
        "Whether files are synced to the device. Without it a power failure may damage the data, a crash of the broker "
        "does not; where `log.flush.interval.messages` or `log.flush.interval.ms` is set, they are synced.",
    ),
    ConfigDef(
        "odradek.control",
        STRING,
        "",
        "HOST:PORT of the control interface of the test kit (docs/testing-with-odradek.md); port 0 is a free one, and "
        "an empty value opens none. Not for production: it injects faults and moves the clock.",
    ),
    ConfigDef(
        "odradek.control.token",
        ConfigType.PASSWORD,
        None,
        "What requests to the control interface must have as `Authorization: Bearer`; needed where it can be reached "
        "from outside the machine.",
    ),
)
