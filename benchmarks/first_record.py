"""The shortest way to an acknowledged record: a socket, Metadata that creates the topic, one Produce with acks=all."""

from __future__ import annotations

import socket
import struct
import time

from aiokafka.record.default_records import DefaultRecordBatchBuilder

TOPIC = b"first"
GIVE_UP_SECONDS = 120.0
RETRY_SECONDS = 0.001


def wait_for_first_record(port: int) -> None:
    """Return when partition 0 of the topic has acknowledged a record, asking repeatedly until it does."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP_SECONDS) as connection:
                while not _try_once(connection):
                    _pause(deadline)
                return
        except OSError:
            _pause(deadline)


def _pause(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError("no record was acknowledged")
    time.sleep(RETRY_SECONDS)


def _try_once(connection: socket.socket) -> bool:
    string = struct.pack(">h", len(TOPIC)) + TOPIC
    metadata = ask(connection, request_frame(3, 1, struct.pack(">i", 1) + string))
    if metadata.find(TOPIC) < 0:
        return False
    answer = ask(connection, request_frame(0, 3, one_record(TOPIC, b"hello")))
    # correlation id, one topic, its name, one partition, index, then the error code.
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + len(string) + 4 + 4)
    return bool(error == 0)


def one_record(topic: bytes, value: bytes) -> bytes:
    """The body of a Produce 3 with acks=all and one record for partition 0."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1000,
    )
    builder.append(0, int(time.time() * 1000), None, value, [])
    records = bytes(builder.build())
    place = struct.pack(">ih", 1, len(topic)) + topic + struct.pack(">iii", 1, 0, len(records))
    return struct.pack(">hhi", -1, -1, 30_000) + place + records


def request_frame(api_key: int, version: int, body: bytes) -> bytes:
    """A whole frame, with a header of version 1."""
    payload = struct.pack(">hhih", api_key, version, 1, 5) + b"bench" + body
    return struct.pack(">i", len(payload)) + payload


def ask(connection: socket.socket, frame: bytes) -> bytes:
    """The answer to a frame, without its size. Raises ConnectionError if the broker closes the connection."""
    connection.sendall(frame)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError("closed")
        data += chunk
    return bytes(data)
