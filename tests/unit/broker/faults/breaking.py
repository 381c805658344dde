"""Requests of six APIs, each with a way to see whether it was done; and faults on a node in virtual time."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.join_group.v2.request import JoinGroupRequestProtocol
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.offset_commit.v8.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic

from broker.faults.faults import Faults
from broker.faults.injection import Around
from broker.faults.spec import Fault, Then
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.transactions import CONFIG, Producer
from tests.unit.broker.wire import answer, batch, fetch, produce

MINUTE = timedelta(minutes=1)
SETTINGS = {**CONFIG, "group.initial.rebalance.delay.ms": "0"}
TOPIC = "t"


class Breaking:
    """Faults on a rig.

    Attributes:
        crashes: the ends that the node would have come to.
        synced_late: the folders before whose next sync it would have ended, and how.
    """

    def __init__(self, rig: Rig) -> None:
        self.crashes: list[Then] = []
        self.synced_late: list[tuple[list[str], Then]] = []
        self._count = 0
        around = Around(rig.node.local.clock, self.crashes.append, self._at_sync, self._new_id)
        self.faults = Faults(rig.node.dispatcher, rig.node.server, around, ["PLAINTEXT"])

    def _at_sync(self, folders: Iterable[str], then: Then) -> None:
        self.synced_late.append((list(folders), then))

    def _new_id(self) -> str:
        self._count += 1
        return str(self._count)

    def set(self, **given: Any) -> Fault:
        return self.faults.set(given)


@dataclass(frozen=True)
class Ask:
    """A request of an API. `prepare` gives its fields, `done` whether the node has done it, `codes` its errors."""

    api: str
    version: int
    prepare: Callable[[Rig], Awaitable[dict[str, Any]]]
    done: Callable[[Rig], Awaitable[bool]] | None

    async def answered(self, client: Client) -> Any | None:
        """The answer that has come; None if there is none."""
        replies = client.replies()
        assert len(replies) <= 1
        return answer(replies[0], self.api, self.version) if replies else None


def codes(response: Any) -> list[str]:
    """All error codes in a response, wherever they are; some are plain numbers."""
    numbers = re.findall(r"\berror_code=(\d+)", repr(response))
    return re.findall(r"<ErrorCode\.(\w+):", repr(response)) + [ErrorCode(int(number)).name for number in numbers]


async def _produce(_rig: Rig) -> dict[str, Any]:
    return produce(TOPIC, {0: batch(b"v")})


async def _produced(rig: Rig) -> bool:
    return rig.node.replicas.get(TOPIC, 0).log_end_offset == 1


async def _fetch(_rig: Rig) -> dict[str, Any]:
    return fetch([(TOPIC, 0, 0)], max_wait_ms=0)


async def _metadata(_rig: Rig) -> dict[str, Any]:
    return {
        "topics": (MetadataRequestTopic(name=TOPIC, topic_id=None),),
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }


async def _join(rig: Rig) -> dict[str, Any]:
    await rig.node.coordinators.groups.ensure_topic()
    return {
        "group_id": "g",
        "session_timeout": MINUTE,
        "rebalance_timeout": MINUTE,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=b""),),
    }


async def _joined(rig: Rig) -> bool:
    told = await rig.connect().ask("describe_groups", 4, groups=("g",), include_authorized_operations=False)
    return len(told.groups[0].members) == 1


async def _commit(rig: Rig) -> dict[str, Any]:
    await rig.node.coordinators.groups.ensure_topic()
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
    )
    return {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": (OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),),
    }


async def _committed(rig: Rig) -> bool:
    told = await rig.connect().ask("offset_fetch", 5, group_id="g", topics=None)
    return [one.committed_offset for topic in told.topics for one in topic.partitions] == [7]


async def _end(rig: Rig) -> dict[str, Any]:
    await rig.node.coordinators.transactions.ensure_topic()
    producer = Producer(rig.connect())
    assert await producer.init() == "none"
    producer.send(b"v", 0)
    await rig.clock.run(10)
    assert producer.told() == ["none"]
    return {
        "transactional_id": producer.name,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "committed": True,
    }


async def _ended(rig: Rig) -> bool:
    await rig.clock.run(10)
    told = await rig.connect().ask("describe_transactions", 0, transactional_ids=("tx",))
    return bool(told.transaction_states[0].transaction_state == "CompleteCommit")


ASKS = [
    Ask("produce", 9, _produce, _produced),
    Ask("fetch", 12, _fetch, None),
    Ask("metadata", 12, _metadata, None),
    Ask("join_group", 2, _join, _joined),
    Ask("offset_commit", 8, _commit, _committed),
    Ask("end_txn", 3, _end, _ended),
]
