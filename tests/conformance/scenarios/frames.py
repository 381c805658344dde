"""Frames that no client sends: does the broker answer, close or wait?"""

from __future__ import annotations

import struct
from typing import Any

from tests.conformance import schema
from tests.conformance.runner import Talk, scenario
from tests.conformance.wire import header

METADATA = header(3, 1, 5, "judge", False)
GOOD = METADATA + struct.pack(">i", 0)


def _flow(t: Talk, step: str, data: bytes, *, half_close: bool = False, framed: bool = True) -> None:
    """Only whether there was an answer, a close or silence."""
    outcome = t.exchange(data, timeout=1.5, framed=framed, half_close=half_close)
    t.keep(step, "answered" if hasattr(outcome, "data") else outcome)


@scenario("frames")
def sizes(t: Talk, v: int) -> None:
    frame = struct.pack(">i", len(GOOD)) + GOOD
    for size in (-1, -2147483648, 2147483647, 104857601):
        _flow(t, f"size {size}", struct.pack(">i", size) + GOOD, framed=False)
    _flow(t, "size 0", struct.pack(">i", 0), framed=False)
    _flow(t, "size 0, then a good frame", struct.pack(">i", 0) + frame, framed=False)
    _flow(t, "size 104857600, cut", struct.pack(">i", 104857600) + GOOD, framed=False)
    _flow(t, "size one too large", struct.pack(">i", len(GOOD) + 1) + GOOD, framed=False)
    _flow(t, "size one too small", struct.pack(">i", len(GOOD) - 1) + GOOD, framed=False)
    for n in (1, 2, 4, 7, 8, 9, 10):
        _flow(t, f"{n} bytes of a header", GOOD[:n])
    _flow(t, "size alone", struct.pack(">i", 20), framed=False)
    _flow(t, "two bytes", b"\x00\x00", framed=False)
    _flow(t, "nothing, half closed", b"", framed=False, half_close=True)
    _flow(t, "part of a size, half closed", b"\x00\x00", framed=False, half_close=True)
    _flow(t, "part of a frame, half closed", frame[:10], framed=False, half_close=True)
    _flow(t, "a good frame, half closed", frame, framed=False, half_close=True)
    _flow(t, "HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", framed=False)
    _flow(t, "TLS hello", bytes.fromhex("1603010200010001fc0303") + b"\x00" * 300, framed=False)


@scenario("frames")
def headers(t: Talk, v: int) -> None:
    for key in (-1, 4, 5, 6, 7, 77, 93, 1000, 32767, -32768):
        _flow(t, f"key {key}", header(key, 0, 1, "judge", False))
    for name in (
        "vote",
        "begin_quorum_epoch",
        "fetch_snapshot",
        "broker_registration",
        "envelope",
        "controller_registration",
    ):
        _flow(t, f"a controller's API: {name}", header(schema.KEYS[name], 0, 1, "judge", True) + b"\x00" * 40)
    _flow(t, "null client id", header(3, 1, 1, None, False) + struct.pack(">i", 0))
    _flow(t, "client id too long", struct.pack(">hhih", 3, 1, 1, 500) + b"judge" + struct.pack(">i", 0))
    _flow(t, "client id length -2", struct.pack(">hhih", 3, 1, 1, -2) + struct.pack(">i", 0))
    _flow(t, "client id that is not UTF-8", struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe" + struct.pack(">i", 0))
    _flow(t, "v2 header where v1 belongs", header(3, 1, 1, "judge", True) + struct.pack(">i", 0))
    _flow(t, "v1 header where v2 belongs", header(3, 9, 1, "judge", False) + b"\x01\x00\x00\x00\x00")
    _flow(t, "header tags cut", header(3, 9, 1, "judge", False) + b"\x05")
    _flow(t, "correlation id negative", header(3, 1, -7, "judge", False) + struct.pack(">i", 0))
    tags = b"\x02\x00\x01a\x01\x01b" + b"\x01\x00\x00\x00\x00"
    _flow(t, "unknown header tags", header(3, 9, 1, "judge", False) + tags)
    _flow(
        t,
        "header tags out of order",
        header(3, 9, 1, "judge", False) + b"\x02\x01\x01a\x00\x01b" + b"\x01\x00\x00\x00\x00",
    )


@scenario("frames")
def bodies(t: Talk, v: int) -> None:
    def metadata(step: str, version: int, body: bytes) -> None:
        _flow(t, step, header(3, version, 5, "judge", version >= 9) + body)

    metadata("array longer than the frame", 1, struct.pack(">i", 1000))
    metadata("array far longer than the frame", 1, struct.pack(">i", 2147483647))
    metadata("array length -2", 1, struct.pack(">i", -2))
    metadata("array length missing", 1, b"")
    metadata("string longer than the frame", 1, struct.pack(">ih", 1, 100) + b"a")
    metadata("string length -1 where null may not be", 1, struct.pack(">ih", 1, -1))
    metadata("string that is not UTF-8", 1, struct.pack(">ih", 1, 2) + b"\xff\xfe")
    metadata("bytes left over", 1, struct.pack(">i", 0) + b"extra")
    metadata("compact array far too long", 9, b"\xff\xff\xff\xff\x0f" + b"\x00" * 5)
    metadata("varint without an end", 9, b"\xff" * 12)
    metadata("compact string far too long", 9, b"\x02\xff\xff\xff\xff\x07" + b"\x00" * 5)
    metadata("tag section cut", 9, b"\x01\x00\x00\x00")
    metadata("tag longer than the frame", 9, b"\x01\x00\x00\x00\x01\x00\x50")
    metadata("tags twice", 9, b"\x01\x00\x00\x00\x02\x05\x00\x05\x00")
    metadata("boolean of 7", 4, struct.pack(">i", 0) + b"\x07")
    _flow(t, "produce: no body", header(0, 9, 5, "judge", True))
    _flow(t, "produce: rubbish", header(0, 9, 5, "judge", True) + bytes(range(200)))
    _flow(t, "fetch: no body", header(1, 12, 5, "judge", True))
    _flow(t, "fetch: rubbish", header(1, 11, 5, "judge", False) + bytes(range(200)))
    _flow(t, "create topics: rubbish", header(19, 5, 5, "judge", True) + bytes(range(100)))
    records = struct.pack(">hhiih", -1, -1, 1000, 1, 1) + b"t" + struct.pack(">iii", 1, 0, 5000) + b"x"
    _flow(t, "produce: records longer than the frame", header(0, 7, 5, "judge", False) + records)
    records = struct.pack(">hhiih", -1, -1, 1000, 1, 1) + b"t" + struct.pack(">iii", 1, 0, -5)
    _flow(t, "produce: records of length -5", header(0, 7, 5, "judge", False) + records)


@scenario("frames")
def order(t: Talk, v: int) -> None:
    """Answers leave in the order of requests, whatever each takes."""
    a = t.topic("a")
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    slow = {
        "max_wait": 400,
        "min_bytes": 1,
        "replica_id": -1,
        "session_epoch": -1,
        "topics": [{"topic": a.name, "partitions": [partition]}],
    }
    wire = t.connect(3)
    wire.send(schema.encode_request("fetch", 11, slow))
    wire.send(schema.encode_request("metadata", 1, {"topics": []}))
    wire.send(schema.encode_request("api_versions", 0, {}))
    ids = [struct.unpack_from(">i", getattr(wire.receive(), "data", b"\xff" * 4))[0] for _ in range(3)]
    t.keep("correlation ids", ids)
    wire = t.connect(2)
    wire.send_bytes((struct.pack(">i", len(GOOD)) + GOOD) * 50)
    t.keep("fifty at once", sum(hasattr(wire.receive(), "data") for _ in range(50)))
    wire = t.connect(2)
    for byte in struct.pack(">i", len(GOOD)) + GOOD:
        wire.send_bytes(bytes([byte]))
    t.keep("a byte at a time", hasattr(wire.receive(), "data"))
    wire = t.connect(2)
    wire.send_frame(GOOD)
    wire.send_frame(header(3, 99, 6, "judge", True))
    wire.send_frame(GOOD)
    kinds = [type(wire.receive()).__name__ for _ in range(3)]
    t.keep("a bad frame between two good ones", kinds)


@scenario("frames")
def nulls(t: Talk, v: int) -> None:
    """Null where the schema has none, in an old encoding and in a flexible one."""

    def null(api: str, versions: tuple[int, ...], step: str, body: dict[str, Any]) -> None:
        for version in versions:
            request = schema.encode_request(api, version, body)
            flexible = schema.request_header_is_flexible(api, version)
            _flow(t, f"{api} {version}: {step}", header(schema.KEYS[api], version, 5, "judge", flexible) + request.body)

    topic = {"name": None, "num_partitions": 1, "replication_factor": 1}
    null("create_topics", (4, 5), "topics", {"topics": None})
    null("create_topics", (4, 5), "name", {"topics": [topic]})
    null(
        "create_topics", (4, 5), "configs", {"topics": [topic | {"name": "x", "configs": None}], "validate_only": True}
    )
    null("delete_topics", (3, 5), "names", {"topic_names": None})
    null("delete_topics", (3, 5), "a name", {"topic_names": [None]})
    null("produce", (8, 9), "topics", {"acks": 1, "timeout": 1000, "topic_data": None})
    null("produce", (8, 9), "name", {"acks": 1, "timeout": 1000, "topic_data": [{"name": None, "partition_data": []}]})
    null(
        "produce",
        (8, 9),
        "partitions",
        {"acks": 1, "timeout": 1000, "topic_data": [{"name": "x", "partition_data": None}]},
    )
    null("fetch", (11, 12), "topics", {"topics": None, "session_epoch": -1})
    null("fetch", (11, 12), "partitions", {"topics": [{"topic": "x", "partitions": None}], "session_epoch": -1})
    null("fetch", (11, 12), "forgotten", {"topics": [], "forgotten_topics_data": None, "session_epoch": -1})
    null("fetch", (11, 12), "rack", {"topics": [], "rack_id": None, "session_epoch": -1})
    null("list_offsets", (5, 6), "topics", {"topics": None})
    null("metadata", (8, 9), "name", {"topics": [{"name": None}]})
    null("describe_configs", (3, 4), "resources", {"resources": None})
    null("describe_configs", (3, 4), "name", {"resources": [{"resource_type": 2, "resource_name": None}]})
    null("api_versions", (3,), "software name", {"client_software_name": None})
    null("offset_for_leader_epoch", (3, 4), "topics", {"topics": None})
    null("describe_topic_partitions", (0,), "topics", {"topics": None})
    null(
        "alter_configs", (1, 2), "configs", {"resources": [{"resource_type": 2, "resource_name": "x", "configs": None}]}
    )


@scenario("frames")
def versions_on_one_connection(t: Talk, v: int) -> None:
    """A client that learns: too new, then what the answer told; APIs at changing versions."""
    wire = t.connect(3)
    wire.send_frame(header(18, 9, 1, "judge", True) + b"\x06judge\x041.0\x00")
    t.keep("too new", type(wire.receive()).__name__)
    for version in (3, 0, 4, 1):
        body = {"client_software_name": "judge", "client_software_version": "1"}
        t.call(f"api_versions {version}", "api_versions", version, body, wire=wire, pick=lambda a: a["error_code"])
    for version in (12, 0, 9, 5, 13):
        t.call(f"metadata {version}", "metadata", version, {"topics": []}, wire=wire, pick=lambda a: len(a["brokers"]))
