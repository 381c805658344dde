"""What a node answers about partitions whose folder has failed, beside a real Kafka's answers to the same questions."""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.runtime.runtime import partition_for
from tests.conformance import schema, wire
from tests.doubles.clock import settle
from tests.unit.broker.replication.offline_questions import ANSWERS, Subjects, questions
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.transactions import Producer
from tests.unit.broker.wire import batch, produce

CONFIG = {"log.dirs": "/one,/two", "offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
GROUP, TRANSACTION = 0, 1
LED, OFFLINE = 0, 1
"""Partitions of `t`."""
KAFKA = json.loads(ANSWERS.read_text())


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """Either folder has a partition of `t`, of groups and of transactional ids; the second folder has failed."""
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        client = rig.connect()
        for kind in (GROUP, TRANSACTION):
            client.send("find_coordinator", 4, key_type=kind, coordinator_keys=("key",))
            await rig.clock.run(1000)
        assert len(client.replies()) == 2

        def gone(_operation: str, path: str) -> None:
            if path.startswith("/two"):
                raise OSError(errno.EIO, "gone", path)

        rig.fs.hook = gone
        told = await client.ask("produce", 9, **produce("t", {LED: batch(b"a"), OFFLINE: batch(b"a")}))
        assert [one.error_code.name for one in told.responses[0].partition_responses] == ["none", "kafka_storage_error"]
        yield rig


def keys(rig: Rig, topic: str) -> tuple[str, str]:
    """A group or transactional id whose partition is online, and one whose partition is not."""
    known = rig.node.cluster.cache.topic(topic)
    assert known is not None
    (offline,) = rig.node.replicas.offline_of(known)
    names = [f"key{number}" for number in range(20)]
    return (
        next(name for name in names if partition_for(name, 2) != offline),
        next(name for name in names if partition_for(name, 2) == offline),
    )


async def subjects(rig: Rig) -> Subjects:
    producer, transactional_id = keys(rig, "__transaction_state")
    made = Producer(rig.connect(), producer)
    assert await made.init() == "none"
    group = keys(rig, "__consumer_offsets")[1]
    topic = rig.node.cluster.cache.topic("t")
    assert topic is not None
    return Subjects(topic.id.hex, OFFLINE, group, transactional_id, producer, made.producer_id, made.epoch)


async def asked(client: Client, api: str, version: int, body: dict[str, Any]) -> Any:
    """The answer, by the codec of the conformance tests."""
    request = schema.encode_request(api, version, body)
    flexible = schema.request_header_is_flexible(api, version)
    frame = wire.header(schema.KEYS[api], version, 7, "judge", flexible) + request.body
    client.transport.feed(struct.pack(">i", len(frame)) + frame)
    await settle()
    (reply,) = client.replies()
    return wire.decode(wire.Frame(reply), api, version, 7)


@pytest.mark.parametrize("name", sorted(KAFKA))
async def test_the_answer_is_kafkas(rig: Rig, name: str) -> None:
    (question,) = [one for one in questions(await subjects(rig)) if one.name == name]
    answer = await asked(rig.connect(), question.api, question.version, dict(question.body))
    assert question.told(answer, OFFLINE) == KAFKA[name]


async def test_who_is_kept_elsewhere_has_a_coordinator(rig: Rig) -> None:
    for kind, topic in ((GROUP, "__consumer_offsets"), (TRANSACTION, "__transaction_state")):
        online = keys(rig, topic)[0]
        told = await rig.connect().ask("find_coordinator", 4, key_type=kind, coordinator_keys=(online,))
        assert [(one.error_code.name, one.node_id) for one in told.coordinators] == [("none", 1)]


@pytest.mark.parametrize("kind", [0, 1])
async def test_an_election_for_all_is_one_for_the_offline(rig: Rig, kind: int) -> None:
    body = {"election_type": kind, "topic_partitions": None, "timeout": 1000}
    told = await asked(rig.connect(), "elect_leaders", 2, body)
    (of_t,) = [one for one in told["replica_election_results"] if one["topic"] == "t"]
    (one,) = of_t["partition_result"]
    assert [["error_code", "0 NONE"], *([name, one[name]] for name in ("error_code", "error_message"))] == KAFKA[
        f"elect {kind}"
    ]
