"""Requests of six APIs made by hand, each with a way to see whether the broker has done it; and faults set two ways."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic
from kio.schema.join_group.v2.request import JoinGroupRequestProtocol
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.offset_commit.v8.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic

from odradek import Broker
from odradek.faults import Fault
from protocol.records.build import Record, build_batch
from tests.client.raw import RawConnection
from tests.unit.broker.wire import answer, fetch, frame, produce
from tests.waiting import wait_until

MINUTE = timedelta(minutes=1)

Fields = dict[str, Any]


def post(broker: Broker, path: str, **body: Any) -> Any:
    """What any other language would do."""
    request = urllib.request.Request(
        f"{broker.control.url}/control{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def set_over_http(broker: Broker, **given: Any) -> Fault:
    return Fault(broker.control, post(broker, "/faults", **given))


def set_fault(broker: Broker, how: str, **given: Any) -> Fault:
    """Set a fault by the Python method, or over HTTP."""
    return broker.fault(**given) if how == "python" else set_over_http(broker, **given)


class Asking(RawConnection):
    """A connection that speaks as one client."""

    def __init__(self, broker: Broker, client_id: str) -> None:
        super().__init__(broker.bootstrap_servers)
        self._client_id = client_id

    def begin(self, api: str, version: int, **fields: Any) -> None:
        """Send a request."""
        self.send(frame(api, version, 1, client_id=self._client_id, **fields))

    def finish(self, api: str, version: int) -> Any:
        """Read the answer."""
        return answer(self.read_frame(), api, version)

    def request(self, api: str, version: int, **fields: Any) -> Any:
        self.begin(api, version, **fields)
        return self.finish(api, version)

    def is_silent(self) -> bool:
        """Whether nothing comes for a moment, not even the end of the connection."""
        self.socket.settimeout(0.05)
        try:
            self.socket.recv(1)
        except TimeoutError:
            return True
        return False


@dataclass(frozen=True)
class Ask:
    """A request about the topic, the group or the transactional id `name`.

    `prepare` returns its fields. `done` says whether the broker has done it; None: it only reads. `kept`: whether a
    broker that was killed still has what was done.
    """

    api: str
    version: int
    prepare: Callable[[Broker, str], Fields]
    done: Callable[[Broker, str], bool] | None
    writes: bool = True
    kept: bool = True


def _produce(broker: Broker, name: str) -> Fields:
    batch = build_batch([Record(0, int(time.time() * 1000), None, b"v")])  # retention soon finds an older one
    return produce(broker.topic(name, partitions=1), {0: bytes(batch)})


def _produced(broker: Broker, name: str) -> bool:
    return len(broker.topic(name).records()) == 1


def _fetch(broker: Broker, name: str) -> Fields:
    return fetch([(broker.topic(name, partitions=1), 0, 0)], max_wait_ms=0)


def _metadata(broker: Broker, name: str) -> Fields:
    topic = MetadataRequestTopic(name=broker.topic(name, partitions=1), topic_id=None)
    return {"topics": (topic,), "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


def _join(_broker: Broker, name: str) -> Fields:
    return {
        "group_id": name,
        "session_timeout": MINUTE,
        "rebalance_timeout": MINUTE,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=b""),),
    }


def _joined(broker: Broker, name: str) -> bool:
    return len(broker.group(name).members) == 1


def _commit(broker: Broker, name: str) -> Fields:
    broker.topic(name, partitions=1)
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
    )
    topics = (OffsetCommitRequestTopic(name=name, partitions=(partition,)),)
    return {"group_id": name, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}


def _committed(broker: Broker, name: str) -> bool:
    return broker.group(name).committed() == {(name, 0): 7}


def _end(broker: Broker, name: str) -> Fields:
    broker.topic(name, partitions=1)
    with Asking(broker, "prepares") as connection:
        producer = connection.request(
            "init_producer_id",
            4,
            transactional_id=name,
            transaction_timeout=MINUTE,
            producer_id=-1,
            producer_epoch=-1,
        )
        connection.request(
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=name, partitions=(0,)),),
        )
    assert broker.transaction(name).state == "Ongoing"
    return {
        "transactional_id": name,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "committed": True,
    }


def _ended(broker: Broker, name: str) -> bool:
    return broker.transaction(name).state == "CompleteCommit"


ASKS = [
    Ask("produce", 9, _produce, _produced),
    Ask("fetch", 12, _fetch, None, writes=False),
    Ask("metadata", 12, _metadata, None, writes=False),
    Ask("join_group", 2, _join, _joined, kept=False),
    Ask("offset_commit", 8, _commit, _committed),
    Ask("end_txn", 3, _end, _ended),
]


def make_coordinators(broker: Broker) -> None:
    """Have the broker make the internal topics, and lead them."""

    def found(kind: int) -> bool:
        with Asking(broker, "prepares") as connection:
            told = connection.request("find_coordinator", 4, key_type=kind, coordinator_keys=("x",))
        return bool(told.coordinators[0].error_code == 0)

    wait_until(lambda: found(0) and found(1), "the broker has no coordinators")
