"""Random requests for `fuzz`: mostly what clients send, with something wrong now and then.

A body is drawn once for both brokers. What differs between them (ids that they gave out) stays a `Held` in it, and
record batches a `Batch`; `fuzz_side.Side.resolve` puts in what that broker gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conformance import batches, schema
from tests.conformance.group_members import subscription
from tools.fuzz import consumers, group_settings, share_consumers, streams_members
from tools.fuzz.symbols import NOBODYS, TOPICS, Batch, Held, Named, Time
from tools.fuzz.wild import Wild

NULLABLE = ("string", "bytes", "records", "uuid")
EVERYTHING_IS_SHARED = ("elect_leaders", "describe_topic_partitions")
"""APIs where a null or empty list names what others own."""


CONFIGURED = dict.fromkeys(share_consumers.GROUPS, share_consumers.CONFIGS) | dict.fromkeys(
    streams_members.GROUPS, streams_members.CONFIGS
)
"""Groups whose configurations are changed, and to what."""


@dataclass(slots=True)
class Cast:
    """Who sends the request: fields of one request agree with each other."""

    tx: str | None
    group: str
    member: str
    session: str
    topic: str = "a"
    partition: int = 0
    config: str = ""
    consumer: str = ""


@dataclass(slots=True)
class Draw(Wild):
    apis: Sequence[str]
    sequences: dict[tuple[str, str, int, int], int] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    sent: list[tuple[tuple[str, str, int, int], int]] = field(default_factory=list)
    cast: Cast | None = None
    api: str = ""
    version: int = 0
    without_epoch: bool = False
    joined: set[str] = field(default_factory=set)
    held: Mapping[tuple[str, str], Any] = field(default_factory=dict)

    def body(self, api: str, version: int) -> dict[str, Any]:
        self.api, self.version, self.sent, self.without_epoch = api, version, [], False
        if self.cast is None or self.chance(0.4):
            self.cast = self._new_cast(api)
        body = self._struct(schema.message_class(api, version, "request"))
        if api == consumers.API:
            made_up = consumers.ids_made_up(self.apis)
            return consumers.heartbeat(self, self.cast.group, version, self.joined, body, ids_made_up=made_up)
        if api in share_consumers.APIS:
            return share_consumers.body(self, api, self.cast.group, self.held, body)
        if api == streams_members.HEARTBEAT:
            return streams_members.heartbeat(self, self.cast.group, self.held, body)
        if api == streams_members.DESCRIPTION:
            return streams_members.description(self, self.cast.group, body)
        if api == group_settings.API and self.cast.group in CONFIGURED:
            return group_settings.change(self, self.cast.group, CONFIGURED[self.cast.group])
        resources = body.get("resources")
        if resources and "validate_only" in body and any(r["resource_type"] != 2 for r in resources):
            body["validate_only"] = True  # others share that broker
        return body

    def _new_cast(self, api: str) -> Cast:
        tx = self.one("tx1", "tx1", "tx1", "tx2")
        if api in ("produce", "init_producer_id") and self.chance(0.5):
            tx = None
        group = self._group(api)
        return Cast(tx, group, f"{group}/{self.one(0, 0, 0, 1)}", self.one("s1", "s1", "s2"))

    def _group(self, api: str) -> str:
        """Of the kind that the conversation or the request is about; now and then of another kind."""
        groups = ("g1", "g2")
        if "share" in api or (share_consumers.HEARTBEAT in self.apis and self.chance(0.8)):
            groups = share_consumers.GROUPS
        elif "streams" in api or (streams_members.HEARTBEAT in self.apis and self.chance(0.8)):
            groups = streams_members.GROUPS
        return str(self.one(*groups, groups[0], groups[0]) if self.chance(0.97) else self.one("g1", "q1", "w1"))

    def _struct(self, cls: type) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for f in schema.fields_of(cls):
            if f.array:
                out[f.name] = self._array(f)
            elif f.name == "name" and "Config" in cls.__name__:
                out[f.name] = self.any_text("configuration_keys") if self.chance(self.wild) else self._config_name()
            elif f.struct:
                out[f.name] = None if f.nullable and self.chance(0.7) else self._struct(f.struct)
            elif f.tag is None or self.chance(0.2):
                out[f.name] = self._drawn(f)
        return out

    def _array(self, f: schema.Field) -> Any:
        if f.nullable and self.chance(0.15) and self.api not in EVERYTHING_IS_SHARED:
            return None
        if not f.nullable and self.chance(self.wild / 20):
            return None
        shared = self.api in EVERYTHING_IS_SHARED
        if f.name == "assignments" and self.api in ("create_topics", "create_partitions") and self.chance(0.85):
            return [] if self.api == "create_topics" else None
        count = self.rng.choices((0, 1, 2, 3), (0 if shared else 2 * self.wild + 0.02, 1.0, 0.3, 0.1))[0]
        items = [self._struct(f.struct) if f.struct else self._drawn(f) for _ in range(count)]
        if self.chance(1 - self.wild):  # the same name twice is odd, too
            seen: list[Any] = []
            for item in items:
                key = next(iter(item.values())) if isinstance(item, dict) else item
                if key not in [next(iter(s.values())) if isinstance(s, dict) else s for s in seen]:
                    seen.append(item)
            items = seen
        return items

    def _drawn(self, f: schema.Field) -> Any:
        if self.chance(self.wild):
            if f.nullable and f.kind in NULLABLE and self.chance(0.2):
                return None
            if not f.nullable and f.kind in ("string", "bytes") and self.chance(0.05):
                return None
            return self._damaged() if f.kind == "records" else self.any_value(self.api, f)
        sane = getattr(self, f"_{f.name}", None)
        return self.plain_value(f) if sane is None else sane()

    # ---- values that make sense, by the field's name

    def _topic(self) -> Any:
        self.cast.topic = self.rng.choices(("a", "b", "c", "missing"), (60, 30, 5, 5))[0]
        if self.api == "create_topics":
            self.cast.topic = self.one("c", "c", "d", "a")
        return Named(self.cast.topic)

    def _name(self) -> Any:
        if self.api == "join_group":
            return self.one("range", "range", "range", "roundrobin")
        if self.api == "metadata" and self.version >= 10 and self.chance(0.3):
            return None
        return self._topic()

    _topics = _topic_name = _resource_name = _topic_names = _topic

    def _topic_id(self) -> Any:
        if self.api in ("metadata", "delete_topics") and self.chance(0.6):
            return schema.NO_ID
        self.cast.topic = self.one("a", "a", "b")
        return Held("topic_id", self.cast.topic, schema.NO_ID)

    def _partition(self) -> int:
        self.cast.partition = self.rng.randrange(TOPICS.get(self.cast.topic, 1))
        return self.cast.partition

    _partition_index = _index = _partitions = _partition_indexes = _partition

    def _configuration_keys(self) -> Any:
        self.cast.config = self.one("retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes", "flush.ms",
                                    "compression.type", "min.insync.replicas", "segment.ms")  # fmt: skip
        return self.cast.config

    _config_name = _configuration_keys

    def _value(self) -> str:
        match self.cast.config:
            case "cleanup.policy":
                return str(self.one("delete", "compact", "compact,delete"))
            case "compression.type":
                return str(self.one("gzip", "zstd", "producer", "uncompressed"))
            case _:
                return str(self.one("1000000", "1048576", "2", "1"))

    def _transactional_id(self) -> Any:
        if self.cast.tx is None and self.api not in ("produce", "init_producer_id"):
            return Named("tx1")
        return None if self.cast.tx is None else Named(self.cast.tx)

    _v3_and_below_transactional_id = _transactional_ids = _transactional_id

    def _producer(self) -> str:
        return self.cast.tx or "idem"

    def _producer_id(self) -> Any:
        if self.api == "init_producer_id" and self.chance(0.6):
            self.without_epoch = True
            return -1
        return Held("producer_id", self._producer(), -1)

    def _producer_epoch(self) -> Any:
        if self.api == "init_producer_id" and self.without_epoch:
            return -1
        return Held("producer_epoch", self._producer(), -1)

    _v3_and_below_producer_id, _v3_and_below_producer_epoch = _producer_id, _producer_epoch

    def _producer_id_filters(self) -> Any:
        return Held("producer_id", self.one("tx1", "tx2", "idem"), NOBODYS)

    def _group_id(self) -> Any:
        return Named(self.cast.group)

    _groups = _groups_names = _group_ids = _group_id

    def _key(self) -> Any:
        return Named(self.one("g1", "tx1"))

    _coordinator_keys = _key

    def _member_id(self) -> Any:
        commits = self.api in ("offset_commit", "txn_offset_commit", "offset_fetch", "leave_group")
        if commits and self.joined and self.chance(0.5):
            self.cast.consumer = self.one(*sorted(self.joined))
            return self.cast.consumer.split("/")[1]
        self.cast.consumer = ""
        if self.api in ("sync_group", "leave_group") and self.chance(0.25):
            return Held("member", f"{self.cast.group}/{self.one(0, 0, 1)}", "")
        if self.api in ("offset_commit", "txn_offset_commit", "offset_fetch") and self.chance(0.3):
            return ""
        return Held("member", self.cast.member, "")

    def _generation_id(self) -> Any:
        if self.cast.consumer:
            return Held("epoch", self.cast.consumer, -1)
        if self.api in ("offset_commit", "txn_offset_commit") and self.chance(0.3):
            return -1
        return Held("generation", self.one(self.cast.group, self.cast.member), -1)

    _generation_id_or_member_epoch = _generation_id

    def _member_epoch(self) -> Any:
        return Held("epoch", self.cast.consumer, -1) if self.cast.consumer else -1

    def _group_instance_id(self) -> Any:
        return None if self.chance(0.9) else "inst"

    def _protocol_type(self) -> str:
        return "consumer"

    def _protocol_name(self) -> Any:
        return Held("protocol_name", self.cast.group, "range")

    def _metadata(self) -> Any:
        return self.one(subscription("topic"), consumers.classic_subscription(self))

    def _assignment(self) -> Any:
        return self.one(b"share", consumers.classic_share(self), consumers.classic_share(self))

    def _session_timeout(self) -> int:
        return 60_000

    _rebalance_timeout = _transaction_timeout = _session_timeout

    def _timeout(self) -> int:
        return 5000

    def _session_id(self) -> Any:
        return Held("session_id", self.cast.session, 0)

    def _session_epoch(self) -> Any:
        return Held("session_epoch", self.cast.session, self.one(0, 0, -1))

    def _max_wait(self) -> int:
        return 0

    def _min_bytes(self) -> int:
        return int(self.one(0, 1))

    def _max_bytes(self) -> int:
        return int(self.one(1 << 20, 1 << 20, 200))

    _partition_max_bytes = _max_bytes

    def _replica_id(self) -> int:
        return -1

    def _replica_epoch(self) -> int:
        return -1

    _current_leader_epoch = _committed_leader_epoch = _last_fetched_epoch = _replica_id

    def _leader_epoch(self) -> int:
        return int(self.one(0, 0, -1, 1))

    def _fetch_offset(self) -> int:
        return self.rng.randrange(8) if self.cast.partition == 0 else int(self.one(0, 0, 1, 3))

    def _offset(self) -> int:
        return int(self.one(0, 1, 2, 3, 4, -1, 6))

    def _committed_offset(self) -> int:
        return self.rng.randrange(100)

    def _timestamp(self) -> Any:
        return self.one(-1, -2, -3, -4, -5, Time(0), Time(1), Time(5))

    def _acks(self) -> int:
        return int(self.one(-1, 1))

    def _isolation_level(self) -> int:
        return int(self.one(0, 1))

    def _resource_type(self) -> int:
        return 2

    def _resource_types(self) -> int:
        return int(self.one(2, 16, 32))

    def _num_partitions(self) -> int:
        return int(self.one(1, 2))

    def _replication_factor(self) -> int:
        return int(self.one(1, -1))

    def _broker_ids(self) -> int:
        return 1

    _replicas = _broker_ids

    def _count(self) -> int:
        return int(self.one(2, 3, 4))

    def _key_type(self) -> int:
        return int(self.one(0, 1))

    def _coordinator_epoch(self) -> int:
        return 0

    def _states_filter(self) -> str:
        return str(self.one("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"))

    def _types_filter(self) -> str:
        return str(self.one("classic", "consumer", "Classic", "share", "streams"))

    def _state_filters(self) -> str:
        return str(self.one("Ongoing", "Empty", "CompleteCommit", "CompleteAbort"))

    def _duration_filter(self) -> int:
        return int(self.one(-1, 0))

    def _entity_type(self) -> str:
        return str(self.one("user", "client-id", "ip"))

    def _match_type(self) -> int:
        return int(self.one(0, 1, 2))

    def _match(self) -> Any:
        return self.one(None, None, Named("u"))

    def _records(self) -> Any:
        count = self.one(1, 2, 3)
        fields: dict[str, Any] = {"attributes": self.one(0, 0, 0, 1, 2, 3, 4)}
        if self.cast.tx is not None or self.chance(0.4):
            producer = self._producer()
            key = (producer, self.cast.topic, self.cast.partition, self.epochs.get(producer, 0))
            fields["pid"], fields["epoch"] = Held("producer_id", producer, NOBODYS), Held("producer_epoch", producer, 0)
            fields["sequence"] = self.sequences.get(key, 0)
            self.sent.append((key, fields["sequence"] + count))
        if self.cast.tx is not None:
            fields["attributes"] |= batches.TRANSACTIONAL
        if self.chance(self.wild):
            fields |= self.one(
                {"sequence": self.one(0, 1, 2, 5, -1, 2147483647)}, {"epoch": self.one(-1, 0, 1, 2)},
                {"attributes": self.one(5, 6, 7, 8, 16, 32, 48, 64)}, {"count": self.one(0, 1, 5, -1)},
                {"last_offset_delta": self.one(-1, 0, 5)}, {"base_offset": self.one(-1, 5)},
                {"magic": self.one(0, 1, 3, -1)}, {"leader_epoch": self.one(0, 5)}, {"pid": self.one(-1, NOBODYS, -2)},
                {"base_timestamp": self.one(-1, 0, Time(4 * 3_600_000 + 60_000))},
            )  # fmt: skip
        return Batch(count, fields)

    def _damaged(self) -> Any:
        batch = self._records()
        how = self.rng.random()
        if how < 0.3:
            return Batch(batch.records, batch.fields, flip=self.rng.random())
        if how < 0.6:
            return Batch(batch.records, batch.fields, cut=self.rng.random())
        return b"" if how < 0.9 else batch

    def settled(
        self, *, without_error: bool, epochs: dict[str, int], joined: set[str], held: Mapping[tuple[str, str], Any]
    ) -> None:
        """What the answer did: sequences go on where all was appended."""
        if without_error:
            self.sequences.update(self.sent)
        self.epochs = epochs
        self.joined = joined
        self.held = held
