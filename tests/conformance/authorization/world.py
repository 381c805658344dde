"""The users with their ACLs, and the topics, groups and transactions that they ask about, the same in both brokers.

Of each kind of resource one is `open`, one `closed`, one begins with `p-`, and one does not exist. What users change
has a name of their own, so that no answer depends on who asked before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.conformance import batches
from tests.conformance.wire import Wire

ADMIN, ALL, DESCRIBER, DENIED, PARTLY, BLIND, NOBODY = (
    "admin",
    "all",
    "describer",
    "denied",
    "partly",
    "blind",
    "nobody",
)
USERS = {
    ADMIN: "a super user",
    ALL: "may do everything, by ACLs",
    DESCRIBER: "may describe everything, and nothing else",
    DENIED: "may do everything, but nothing to what is open, and nothing to the cluster",
    PARTLY: "may do everything to what is open or begins with p-, and nothing to the cluster",
    BLIND: "may read and write all topics and groups, but not describe them, and create what begins with p-",
    NOBODY: "no ACL names it",
}
TYPES = {"TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5, "DELEGATION_TOKEN": 6, "USER": 7}
NAMES = ("t-open", "t-closed", "p-t")
LITERAL, PREFIXED = 3, 4
ALLOW, DENY = 3, 2
ANY_OPERATION, READ, WRITE, CREATE, DESCRIBE, DESCRIBE_CONFIGS = 2, 3, 4, 5, 8, 10
TIMEOUT_MS = 30_000

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "delegation.token.secret.key": "a key of the test",
    "listener.name.sasl.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    + " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    + ";",
}


class Acl(NamedTuple):
    resource: str
    name: str
    operation: int
    permission: int = ALLOW
    pattern: int = LITERAL


def acls() -> dict[str, list[Acl]]:
    """Those of each user."""
    everything = [Acl(kind, "kafka-cluster" if kind == "CLUSTER" else "*", ANY_OPERATION) for kind in TYPES]
    kinds = {"TOPIC": "t", "GROUP": "g", "TRANSACTIONAL_ID": "x"}
    opened = [(kind, f"{short}-open") for kind, short in kinds.items()]
    return {
        ALL: everything,
        DESCRIBER: [
            *(each._replace(operation=DESCRIBE) for each in everything),
            *(
                Acl(kind, "kafka-cluster" if kind == "CLUSTER" else "*", DESCRIBE_CONFIGS)
                for kind in ("TOPIC", "GROUP", "CLUSTER")
            ),
        ],
        DENIED: [
            *everything,
            *(Acl(kind, name, ANY_OPERATION, DENY) for kind, name in opened),
            Acl("CLUSTER", "kafka-cluster", ANY_OPERATION, DENY),
        ],
        PARTLY: [
            *(Acl(kind, name, ANY_OPERATION) for kind, name in opened),
            *(Acl(kind, "p-", ANY_OPERATION, pattern=PREFIXED) for kind in kinds),
        ],
        BLIND: [
            Acl(kind, "*", operation, permission)
            for kind in ("TOPIC", "GROUP")
            for operation, permission in ((READ, ALLOW), (WRITE, ALLOW), (DESCRIBE, DENY))
        ]
        + [Acl("TOPIC", "p-", CREATE, pattern=PREFIXED)],
    }


def creations() -> list[dict[str, Any]]:
    """The ACLs of all users, as CreateAcls wants them."""
    return [
        {
            "resource_type": TYPES[each.resource],
            "resource_name": each.name,
            "resource_pattern_type": each.pattern,
            "principal": f"User:{user}",
            "host": "*",
            "operation": each.operation,
            "permission_type": each.permission,
        }
        for user, own in acls().items()
        for each in own
    ]


class World:
    """What was made before anybody asks.

    Attributes:
        ids: of topics, by name.
        secret: of a token of `all`'s, which has made another for somebody else.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.ids: dict[str, str] = {}
        self.secret = b""
        self.member_id = "c-member"

    def connect(self, user: str) -> Wire:
        """A connection of a user's."""
        wire = Wire("127.0.0.1", self.port, 20.0)
        assert is_fine(wire.call("sasl_handshake", 1, {"mechanism": "PLAIN"}))
        token = f"\0{user}\0{user}-secret".encode()
        assert is_fine(wire.call("sasl_authenticate", 2, {"auth_bytes": token}))
        return wire

    def make(self) -> None:
        """Make everything, as the super user."""
        wire = self.connect(ADMIN)
        created = wire.call("create_acls", 3, {"creations": creations()})
        assert all(map(is_fine, created["results"])), created
        names = [*NAMES, *(f"{start}-{kind}-{user}" for start in "np" for kind in ("gone", "idgone") for user in USERS)]
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        made = wire.call("create_topics", 7, {"topics": topics, "timeout": TIMEOUT_MS})
        assert all(map(is_fine, made["topics"])), made
        self.ids = {each["name"]: each["topic_id"] for each in made["topics"]}
        self._coordinators(wire)
        groups = [
            "g-open",
            "g-closed",
            "p-g",
            *(f"{s}-{k}-{u}" for s in "np" for k in ("ggone", "ogone") for u in USERS),
        ]
        for group in groups:
            self._commit(wire, group)
        self._transaction(wire)
        self._consumer(wire)
        wire.close()
        owner = self.connect(ALL)
        token = owner.call("create_delegation_token", 3, {"renewers": [], "max_lifetime": -1})
        self.secret = token["hmac"]
        for_another = {"owner_principal_type": "User", "owner_principal_name": "another"}
        owner.call("create_delegation_token", 3, {**for_another, "renewers": [], "max_lifetime": -1})
        owners = {"owners": [{"principal_type": "User", "principal_name": "all"}]}
        _retried(owner, "describe_delegation_token", 3, owners, lambda answer: len(answer["tokens"]) == 2)
        owner.close()

    def _coordinators(self, wire: Wire) -> None:
        """Wait until all coordinators serve."""
        share = {"key_type": 2, "coordinator_keys": ["g-none:AAAAAAAAAAAAAAAAAAAABQ:0"]}
        _retried(wire, "find_coordinator", 6, share, lambda answer: all(map(is_fine, answer["coordinators"])))
        for key_type, keys in ((0, ["g-open", "g-closed", "p-g"]), (1, ["x-open"])):
            _retried(
                wire, "find_coordinator", 4, {"key_type": key_type, "coordinator_keys": keys},
                lambda answer: all(map(is_fine, answer["coordinators"])),
            )  # fmt: skip
        _retried(wire, "init_producer_id", 4, {"transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
                 is_fine)  # fmt: skip

    def _commit(self, wire: Wire, group: str) -> None:
        partitions = [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]
        body = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": name, "partitions": partitions} for name in NAMES],
        }
        _retried(
            wire, "offset_commit", 8, body,
            lambda answer: all(is_fine(one) for topic in answer["topics"] for one in topic["partitions"]),
        )  # fmt: skip

    def _transaction(self, wire: Wire) -> None:
        """Open a transaction with a partition of every topic."""
        asked = {
            "transactional_id": "x-open",
            "transaction_timeout": 900_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        begun = _retried(wire, "init_producer_id", 4, asked, is_fine)
        body = {
            "v3_and_below_transactional_id": "x-open",
            "v3_and_below_producer_id": begun["producer_id"],
            "v3_and_below_producer_epoch": begun["producer_epoch"],
            "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in NAMES],
        }
        wire.call("add_partitions_to_txn", 3, body)

    def _consumer(self, wire: Wire) -> None:
        """Let a consumer join the group `g-consumer`, which has all topics."""
        body = {
            "group_id": "g-consumer",
            "member_id": self.member_id,
            "member_epoch": 0,
            "rebalance_timeout": 300_000,
            "subscribed_topic_names": list(NAMES),
            "topic_partitions": [],
        }
        _retried(wire, "consumer_group_heartbeat", 1, body, is_fine)


def is_fine(answer: dict[str, Any]) -> bool:
    """Whether this part of an answer has no error."""
    return bool(answer["error_code"] == "0 NONE")


def records(**fields: Any) -> bytes:
    return batches.batch(base_timestamp=int(time.time() * 1000), **fields)


def _retried(wire: Wire, api: str, version: int, body: dict[str, Any], is_good: Callable[[Any], bool]) -> Any:
    for _ in range(100):
        answer = wire.call(api, version, body)
        if is_good(answer):
            return answer
        time.sleep(0.2)
    raise AssertionError(f"{api}: {answer}")
