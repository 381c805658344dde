"""Show every case to a real Apache Kafka and write its answers to `kafka_answers.json`.

Run by hand from the repository's root: `python -m tools.recorders.ask_kafka 127.0.0.1:19092`. `test_validator_answers`
then holds the validator to the file.
"""

from __future__ import annotations

import datetime
import io
import json
import socket
import struct
import sys
import time
from typing import TypeVar

from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.fetch.v11 import request as fetch_request
from kio.schema.fetch.v11 import response as fetch_response
from kio.schema.produce.v8 import request as produce_request
from kio.schema.produce.v8 import response as produce_response
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity

from protocol.records.batch import read_header
from tests.unit.storage.log.validator_answers import ANSWERS, describe
from tests.unit.storage.log.validator_cases import CASES, Case

E = TypeVar("E", bound=Entity)


class Client:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._stream = self._socket.makefile("rb")
        self._next = 0

    def call(self, key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes:
        """The body of the answer."""
        self._next += 1
        tags = b"\0" if flexible else b""
        frame = struct.pack(">hhih", key, version, self._next, -1) + tags + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._stream.read(4))
        return self._stream.read(size)[4 + len(tags) :]

    def produce(self, topic: str, records: bytes) -> produce_response.PartitionProduceResponse:
        data = produce_request.PartitionProduceData(index=0, records=records)
        request = produce_request.ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout=_ms(10000),
            topic_data=(produce_request.TopicProduceData(name=topic, partition_data=(data,)),),
        )
        body = self.call(0, 8, encode(produce_request.ProduceRequest, request))
        answer, _ = entity_reader(produce_response.ProduceResponse)(body, 0)
        return answer.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int) -> bytes:
        partition = fetch_request.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1, current_leader_epoch=-1, log_start_offset=-1
        )
        request = fetch_request.FetchRequest(
            max_wait=_ms(100),
            min_bytes=1,
            topics=(fetch_request.FetchTopic(topic=topic, partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        body = self.call(1, 11, encode(fetch_request.FetchRequest, request))
        answer, _ = entity_reader(fetch_response.FetchResponse)(body, 0)
        return bytes(answer.responses[0].partitions[0].records or b"")


def _ms(value: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=value)


def encode(entity: type[E], request: E) -> bytes:
    out = io.BytesIO()
    entity_writer(entity)(out, request)
    return out.getvalue()


def main(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    client = Client(address)
    run = int(time.time())
    topics: dict[str, str] = {}
    answers: dict[str, dict[str, object]] = {}
    for case in CASES:
        topic = topic_of(admin, topics, case, run)
        now = int(time.time() * 1000)
        try:
            answer = client.produce(topic, bytes(case.make(now)))
        except (TimeoutError, struct.error):
            answers[case.name] = {"code": "no answer"}
            client = Client(address)
            continue
        told: dict[str, object] = {"code": int(answer.error_code)}
        if answer.error_code:
            told["message"] = answer.error_message and "<text>"
            told["record_errors"] = [
                [error.batch_index, error.batch_index_error_message and "<text>"] for error in answer.record_errors
            ]
        else:
            stored = client.fetch(topic, answer.base_offset)
            header = read_header(stored)
            told["log_append_time"] = "NOW" if answer.log_append_time is not None else -1
            told["stored"] = describe(stored, header, now)
            told["size"] = header.size
        answers[case.name] = told
        sys.stdout.write(f"{case.name}: {told['code']} {told.get('message')} {told.get('record_errors')}\n")
    ANSWERS.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    admin.delete_topics(list(topics.values()))
    time.sleep(2)


def topic_of(admin: AdminClient, topics: dict[str, str], case: Case, run: int) -> str:
    key = json.dumps(case.config, sort_keys=True)
    if key not in topics:
        topics[key] = f"records-{run}-{len(topics)}"
        for future in admin.create_topics([NewTopic(topics[key], 1, 1, config=case.config)]).values():
            future.result()
        time.sleep(0.5)
    return topics[key]


if __name__ == "__main__":
    main(sys.argv[1])
