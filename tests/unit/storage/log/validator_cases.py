"""Record sets, good and odd, that were shown to Apache Kafka 4.1 as well as to the validator.

Each case is bytes for one partition of a Produce request and the topic's configuration. Times are relative to `now`: the
real time for the asker, a fixed one in the unit test.
"""

# One line a case, however long.
# ruff: noqa: E501

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import cramjam
import lz4.frame  # type: ignore[import-untyped]

from protocol.records import batch as batches
from protocol.records.build import Record, build_batch, encode_record
from protocol.records.compression import Compression, compress

HOUR = 3600_000
DAY = 24 * HOUR


@dataclass(frozen=True, slots=True)
class Case:
    """`make(now)` gives the record set; `config` is in Kafka's topic configuration names."""

    name: str
    make: Callable[[int], bytes | bytearray]
    config: dict[str, str] = field(default_factory=dict)


def records(now: int, count: int = 3, *, key: bytes | None = b"k", step: int = 1) -> list[Record]:
    return [Record(i, now + i * step, key, b"value %d" % i, ((b"h", b"x"),) if i == 1 else ()) for i in range(count)]


def plain(now: int, **options: object) -> bytearray:
    return build_batch(records(now), **options)  # type: ignore[arg-type]


def patched(batch: bytearray, at: int, layout: str, *values: int, crc: bool = True) -> bytes:
    """The batch with a field overwritten, and a CRC that agrees unless told otherwise."""
    struct.pack_into(">" + layout, batch, at, *values)
    if crc:
        batches.write_crc(batch, 0, len(batch))
    return bytes(batch)


def with_section(now: int, section: bytes, count: int, attributes: int = 0, **fields: int) -> bytes:
    """A batch around a hand-made records section."""
    header = batches.BatchHeader(
        base_offset=0,
        batch_length=len(section) + 49,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=now,
        max_timestamp=now,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )._replace(**fields)
    batch = bytearray(batches.pack_header(header) + section)
    batches.write_crc(batch, 0, len(batch))
    return bytes(batch)


def one(delta: int = 0, value: bytes = b"v", key: bytes | None = b"k", time: int = 0) -> bytes:
    return encode_record(delta, time, key, value)


def sized(body: bytes) -> bytes:
    """A record of an arbitrary body of under 64 bytes."""
    return bytes((len(body) * 2,)) + body


def excess(number: int) -> bytes:
    """A varint of five bytes, of a number from 0 to 63; Java's int has no room for the fifth one's uppermost bit."""
    return bytes((number * 2 | 0x80, 0x80, 0x80, 0x80, 0x10))


EXCESS_BITS = {
    "length": excess(8) + b"\0\0\0\x02k\x02v\0",
    "timestamp": sized(b"\0" + b"\x80" * 9 + b"\x7e" + b"\0\x02k\x02v\0"),
    "offset": sized(b"\0\0" + excess(0) + b"\x02k\x02v\0"),
    "key length": sized(b"\0\0\0" + excess(1) + b"k\x02v\0"),
    "value length": sized(b"\0\0\0\x02k" + excess(1) + b"v\0"),
    "header count": sized(b"\0\0\0\x02k\x02v" + excess(1) + b"\x02h\x02x"),
    "header key length": sized(b"\0\0\0\x02k\x02v\x02" + excess(1) + b"h\x02x"),
}
"""Records with excess bits in one of their varints."""

LAT = {"message.timestamp.type": "LogAppendTime"}
COMPACT = {"cleanup.policy": "compact"}
GZIPPED = {"compression.type": "gzip"}
PLAIN = {"compression.type": "uncompressed"}
SMALL = {"max.message.bytes": "200"}
BEFORE = {"message.timestamp.before.max.ms": str(HOUR)}

CASES = [
    Case("plain", plain),
    Case("nothing", lambda now: b""),
    Case("eleven bytes", lambda now: bytes(plain(now)[:11])),
    Case("sixteen bytes", lambda now: bytes(plain(now)[:16])),
    Case("header alone", lambda now: bytes(plain(now)[:61])),
    Case("cut at the last byte", lambda now: bytes(plain(now)[:-1])),
    Case("bytes behind the batch", lambda now: bytes(plain(now)) + b"junk"),
    Case("seventeen bytes behind the batch", lambda now: bytes(plain(now)) + bytes(plain(now)[:17])),
    Case("bad magic behind the batch", lambda now: bytes(plain(now)) + bytes(16) + b"\x07" + bytes(60)),
    Case("two batches", lambda now: bytes(plain(now)) * 2),
    Case("base offset 1", lambda now: patched(plain(now), 0, "q", 1)),
    Case("base offset -1", lambda now: patched(plain(now), 0, "q", -1)),
    Case("leader epoch 7", lambda now: patched(plain(now), 12, "i", 7)),
    Case("magic 3", lambda now: patched(plain(now), 16, "b", 3)),
    Case("magic -1", lambda now: patched(plain(now), 16, "b", -1)),
    Case("magic 1", lambda now: patched(plain(now), 16, "b", 1)),
    Case("magic 0", lambda now: patched(plain(now), 16, "b", 0)),
    Case("length 0", lambda now: patched(plain(now), 8, "i", 0)),
    Case("length -1", lambda now: patched(plain(now), 8, "i", -1)),
    Case("length 13", lambda now: patched(plain(now), 8, "i", 13)),
    Case("length 14", lambda now: patched(plain(now), 8, "i", 14)),
    Case("length 20", lambda now: patched(plain(now), 8, "i", 20)),
    Case("length 48", lambda now: patched(plain(now), 8, "i", 48)),
    Case("length 14 alone", lambda now: patched(plain(now), 8, "i", 14)[:26]),
    Case("length 20 alone", lambda now: patched(plain(now), 8, "i", 20)[:32]),
    Case("length 48 alone", lambda now: patched(plain(now), 8, "i", 48)[:60]),
    Case("length 48 alone, base offset 1", lambda now: patched(bytearray(patched(plain(now), 8, "i", 48)), 0, "q", 1)[:60]),
    Case("length 49 alone", lambda now: with_section(now, b"", 1)),
    Case("length just not too huge", lambda now: patched(plain(now), 8, "i", 2**31 - 13)),
    Case("length one less", lambda now: patched(plain(now), 8, "i", len(plain(now)) - 13)),
    Case("base offset 1 and bad crc", lambda now: b"" + patched(plain(now), 0, "q", 1)[:-1] + b"x"),
    Case("base offset 1 and too large", lambda now: patched(build_batch([Record(0, now, b"k", bytes(200))]), 0, "q", 1), SMALL),
    Case("bad crc", lambda now: patched(plain(now), 17, "I", 12345, crc=False)),
    Case("last offset delta too large", lambda now: patched(plain(now), 23, "i", 3)),
    Case("last offset delta too small", lambda now: patched(plain(now), 23, "i", 1)),
    Case("last offset delta negative", lambda now: patched(plain(now), 23, "i", -2)),
    Case("count 0", lambda now: patched(plain(now), 57, "i", 0)),
    Case("count -1", lambda now: patched(plain(now), 57, "i", -1)),
    Case("no records at all", lambda now: with_section(now, b"", 0)),
    Case("no records, delta 0", lambda now: with_section(now, b"", 0, last_offset_delta=0)),
    Case("count 2 of 3", lambda now: patched(bytearray(patched(plain(now), 57, "i", 2)), 23, "i", 1)),
    Case("count 4 of 3", lambda now: patched(bytearray(patched(plain(now), 57, "i", 4)), 23, "i", 3)),
    Case("max timestamp wrong", lambda now: patched(plain(now), 35, "q", now - 5)),
    Case("max timestamp absurd", lambda now: patched(plain(now), 35, "q", now + 100 * DAY)),
    Case("no timestamps", lambda now: build_batch([Record(0, -1, b"k", b"v")])),
    Case("first without timestamp", lambda now: build_batch([Record(0, -1, b"k", b"v"), Record(1, now, b"k", b"v")])),
    Case("timestamp -2", lambda now: build_batch([Record(0, -2, b"k", b"v")])),
    Case("timestamps fall", lambda now: build_batch(records(now, step=-5))),
    Case("timestamp in two hours", lambda now: build_batch(records(now, step=HOUR))),
    Case("timestamp two hours ago", lambda now: build_batch(records(now, step=-HOUR + 1)), BEFORE),
    Case("timestamp 0 with limit", lambda now: build_batch(records(0, step=0)), BEFORE),
    Case("timestamp -2 with limit", lambda now: build_batch([Record(0, -2, b"k", b"v")]), BEFORE),
    Case("client says LogAppendTime", lambda now: bytes(plain(now, log_append_time=now))),
    Case("client says LogAppendTime 0", lambda now: bytes(plain(now, log_append_time=0))),
    Case("client says LogAppendTime -1", lambda now: patched(plain(now, log_append_time=5), 35, "q", -1)),
    Case("client says LogAppendTime -1, null", lambda now: patched(build_batch([Record(0, now, None, None)], log_append_time=5), 35, "q", -1)),
    Case(
        "client says LogAppendTime -1, gzip",
        lambda now: patched(
            build_batch([Record(0, now, None, b"v"), Record(1, now, b"k", None)], log_append_time=5, compression=Compression.GZIP),
            35,
            "q",
            -1,
        ),
    ),
    Case("client says LogAppendTime, to gzip", lambda now: bytes(plain(now, log_append_time=now + 7)), GZIPPED),
    Case("unknown attribute, LogAppendTime", lambda now: patched(plain(now), 21, "h", 0x7F80), LAT),
    Case("timestamp -2 to gzip", lambda now: build_batch([Record(0, -2, b"k", b"v")]), GZIPPED),
    Case("timestamp -1 to gzip", lambda now: build_batch([Record(0, -1, b"k", b"v")]), GZIPPED),
    Case("client says LogAppendTime to such a topic", lambda now: bytes(plain(now, log_append_time=now)), LAT),
    Case("LogAppendTime", plain, LAT),
    Case("LogAppendTime, old records", lambda now: build_batch(records(0)), LAT | BEFORE),
    Case("LogAppendTime, gzip", lambda now: bytes(plain(now, compression=Compression.GZIP)), LAT),
    Case("LogAppendTime to gzip", plain, LAT | GZIPPED),
    Case("null keys", lambda now: build_batch(records(now, key=None))),
    Case("null keys, compacted", lambda now: build_batch(records(now, key=None)), COMPACT),
    Case("five null keys, compacted", lambda now: build_batch(records(now, 5, key=None)), COMPACT),
    Case(
        "one null key, compacted",
        lambda now: build_batch([*records(now), Record(3, now, None, b"v")], compression=Compression.LZ4),
        COMPACT,
    ),
    Case(
        "null key and bad time, compacted",
        lambda now: build_batch([Record(0, now, None, b"v"), Record(1, now + 3 * HOUR, b"k", b"v")]),
        COMPACT,
    ),
    Case(
        "null key with bad time, compacted",
        lambda now: build_batch([Record(0, now, b"k", b"v"), Record(1, now + 3 * HOUR, None, b"v")]),
        COMPACT,
    ),
    Case("control", lambda now: patched(plain(now), 21, "h", 0x20)),
    Case("control with producer", lambda now: patched(plain(now, producer_id=5, producer_epoch=0), 21, "h", 0x20)),
    Case("delete horizon", lambda now: patched(plain(now), 21, "h", 0x40)),
    Case("delete horizon to gzip", lambda now: patched(plain(now), 21, "h", 0x40), GZIPPED),
    Case("unknown attribute", lambda now: patched(plain(now), 21, "h", 0x80)),
    Case("unknown attributes to gzip", lambda now: patched(plain(now), 21, "h", 0x7F80), GZIPPED),
    Case("negative attributes", lambda now: patched(plain(now), 21, "h", -(2**15))),
    Case("producer without sequence", lambda now: bytes(plain(now, producer_id=5, producer_epoch=0))),
    Case("sequence without producer", lambda now: bytes(plain(now, base_sequence=3))),
    Case("producer epoch -1", lambda now: bytes(plain(now, producer_id=6, base_sequence=0))),
    Case("producer id -2", lambda now: bytes(plain(now, producer_id=-2, producer_epoch=0, base_sequence=0))),
    Case("producer id -2 to gzip", lambda now: bytes(plain(now, producer_id=-2, producer_epoch=0, base_sequence=0)), GZIPPED),
    Case("producer id -2, epoch -1 to gzip", lambda now: bytes(plain(now, producer_id=-2, base_sequence=0)), GZIPPED),
    Case("producer id -2, no sequence to gzip", lambda now: bytes(plain(now, producer_id=-2, producer_epoch=0)), GZIPPED),
    Case("producer epoch -1 to gzip", lambda now: bytes(plain(now, producer_id=7, base_sequence=0)), GZIPPED),
    Case("compression 5", lambda now: patched(plain(now), 21, "h", 5)),
    Case("compression 7", lambda now: patched(plain(now), 21, "h", 7)),
    Case("compression 5 and count 0", lambda now: patched(bytearray(patched(plain(now), 21, "h", 5)), 57, "i", 0)),
    Case("compression 5 and bad crc", lambda now: patched(plain(now), 21, "h", 5, crc=False)),
    Case("too large", lambda now: build_batch([Record(0, now, b"k", bytes(200))]), SMALL),
    Case("just not too large", lambda now: build_batch([Record(0, now, b"k", bytes(200 - 61 - 10))]), SMALL),
    Case("one too large", lambda now: build_batch([Record(0, now, b"k", bytes(200 - 61 - 9))]), SMALL),
    Case("too large and bad crc", lambda now: b"" + build_batch([Record(0, now, b"k", bytes(200))])[:-1] + b"x", SMALL),
    Case(
        "too large when unpacked",
        lambda now: build_batch([Record(0, now, b"k", bytes(200))], compression=Compression.GZIP),
        SMALL | PLAIN,
    ),
    Case("too large before packing", lambda now: build_batch([Record(0, now, b"k", bytes(200))]), SMALL | GZIPPED),
    Case("record offset deltas all 0", lambda now: with_section(now, one() * 3, 3)),
    Case("record offset deltas from 1", lambda now: with_section(now, one(1) + one(2), 2)),
    Case("record offset delta negative", lambda now: with_section(now, one(-1), 1)),
    Case("record offset deltas all 0, gzip", lambda now: with_section(now, compress(Compression.GZIP, one() * 3), 3, 1)),
    Case("record offset deltas all 0 to gzip", lambda now: with_section(now, one() * 3, 3), GZIPPED),
    Case("record length too long", lambda now: with_section(now, b"\x7e" + one()[1:], 1)),
    Case("record length one more", lambda now: with_section(now, bytes((one()[0] + 2,)) + one()[1:], 1)),
    Case("record length one less", lambda now: with_section(now, bytes((one()[0] - 2,)) + one()[1:], 1)),
    Case("record length one less of two", lambda now: with_section(now, bytes((one()[0] - 2,)) + one()[1:] + one(1), 2)),
    Case("record length negative", lambda now: with_section(now, b"\x01" + one()[1:], 1)),
    Case("record length 0", lambda now: with_section(now, b"\x00", 1)),
    Case("record length of six bytes", lambda now: with_section(now, b"\x80\x80\x80\x80\x80\x01" + one(), 1)),
    Case("record length not canonical", lambda now: with_section(now, bytes((one()[0] | 0x80, 0)) + one()[1:], 1)),
    Case("timestamp delta of eleven bytes", lambda now: with_section(now, sized(b"\0" + b"\xff" * 10 + b"\1\0\0\0\0"), 1)),
    Case("timestamp delta overflows", lambda now: with_section(now, one(time=2**63 - 1), 1, base_timestamp=5)),
    Case("timestamp delta overflows, LogAppendTime to gzip", lambda now: with_section(now, one(time=2**63 - 1), 1, base_timestamp=5), LAT | GZIPPED),
    Case("timestamp delta overflows up, LogAppendTime to gzip", lambda now: with_section(now, one(time=-(2**63)), 1, base_timestamp=-5), LAT | GZIPPED),
    Case("record length largest, to gzip", lambda now: with_section(now, b"\xfe\xff\xff\xff\x0f" + one()[1:], 1), GZIPPED),
    Case("record length negative, to gzip", lambda now: with_section(now, b"\x01" + one()[1:], 1), GZIPPED),
    Case("key length -2", lambda now: with_section(now, sized(b"\0\0\0\x03\0\0"), 1)),
    Case("key length too long", lambda now: with_section(now, sized(b"\0\0\0\x20\0\0"), 1)),
    Case("value length -1", lambda now: with_section(now, sized(b"\0\0\0\0\x01\0"), 1)),
    Case("value length too long", lambda now: with_section(now, sized(b"\0\0\0\0\x20\0"), 1)),
    Case("value longer than its record", lambda now: with_section(now, sized(b"\0\0\0\0\x02") + b"\0" * 20, 1)),
    Case("headers -1", lambda now: with_section(now, sized(b"\0\0\0\0\0\x01"), 1)),
    Case("headers too many", lambda now: with_section(now, sized(b"\0\0\0\0\0\x08"), 1)),
    Case("headers missing", lambda now: with_section(now, sized(b"\0\0\0\0\0"), 1)),
    Case("headers past the batch", lambda now: with_section(now, sized(b"\0\0\0\0\0\x02\x00"), 1)),
    Case("header with key null", lambda now: with_section(now, sized(b"\0\0\0\0\0\x02\x01\x01"), 1)),
    Case("header with value null", lambda now: with_section(now, sized(b"\0\0\0\0\0\x02\x02h\x01"), 1)),
    Case("header key not UTF-8", lambda now: with_section(now, sized(b"\0\0\0\0\0\x02\x02\xff\x01"), 1)),
    Case("header key not UTF-8 to gzip", lambda now: with_section(now, sized(b"\0\0\0\0\0\x02\x02\xff\x01"), 1), GZIPPED),
    Case("same header twice", lambda now: with_section(now, sized(b"\0\0\0\0\0\x04\x02h\x01\x02h\x02a"), 1)),
    Case("record attributes set", lambda now: with_section(now, sized(b"\x07\0\0\0\0\0"), 1)),
    Case("record attributes set to gzip", lambda now: with_section(now, sized(b"\x07\0\0\0\0\0"), 1), GZIPPED),
    Case("bytes behind the records", lambda now: with_section(now, one() + b"\0", 1)),
    Case("empty key and value", lambda now: build_batch([Record(0, now, b"", b"")]), COMPACT),
    Case("tombstone", lambda now: build_batch([Record(0, now, b"k", None)]), COMPACT),
    Case("lz4 with linked blocks", lambda now: with_section(now, lz4.frame.compress(
        one(value=b"words " * 40000), block_linked=True, block_size=4), 1, 3)),
    Case("lz4 with checksums and size", lambda now: with_section(now, lz4.frame.compress(
        one(), block_linked=False, content_checksum=True, block_checksum=True), 1, 3)),
    Case("lz4 with wrong content checksum", lambda now: with_section(now, lz4.frame.compress(
        one(), block_linked=False, content_checksum=True, block_checksum=True)[:-1] + b"x", 1, 3)),
    Case("raw snappy", lambda now: with_section(now, bytes(cramjam.snappy.compress_raw(one())), 1, 2)),
    Case("large segment", lambda now: build_batch([Record(0, now, b"k", bytes(1 << 20))]),
         {"segment.bytes": str(1 << 20), "max.message.bytes": str(2 << 20)}),
]  # fmt: skip


def _packed(codec: Compression, **changes: object) -> Callable[[int], bytes]:
    def make(now: int) -> bytes:
        return bytes(plain(now, compression=codec, **changes))

    return make


def _too_early(codec: Compression) -> Callable[[int], bytes]:
    def make(now: int) -> bytes:
        return patched(plain(now, compression=codec), 35, "q", now - 5)

    return make


def _spoilt(
    codec: Compression, spoil: Callable[[bytes], bytes], section: bytes = one(), count: int = 1
) -> Callable[[int], bytes]:
    def make(now: int) -> bytes:
        return with_section(now, spoil(compress(codec, section)), count, int(codec))

    return make


def _twice(codec: Compression) -> Callable[[int], bytes]:
    def make(now: int) -> bytes:
        return with_section(now, compress(codec, one()) + compress(codec, one(1)), 2, int(codec))

    return make


def _by_hand(section: bytes) -> Callable[[int], bytes]:
    return lambda now: with_section(now, section, 1)


for _field, _record in EXCESS_BITS.items():
    CASES += [
        Case(f"excess bits, {_field}", _by_hand(_record)),
        Case(f"excess bits, {_field}, to gzip", _by_hand(_record), GZIPPED),
    ]

for _codec in list(Compression)[1:]:
    _name = _codec.name.lower()
    CASES += [
        Case(_name, _packed(_codec)),
        Case(f"{_name} to uncompressed", _packed(_codec), PLAIN),
        Case(f"{_name} to gzip", _packed(_codec), GZIPPED),
        Case(f"plain to {_name}", plain, {"compression.type": _name}),
        Case(f"{_name}, max timestamp wrong", _too_early(_codec)),
        Case(f"{_name}, cut", _spoilt(_codec, lambda b: b[:-1])),
        Case(f"{_name}, cut in half", _spoilt(_codec, lambda b: b[: len(b) // 2])),
        Case(f"{_name}, nothing", _spoilt(_codec, lambda b: b"")),
        Case(f"{_name}, junk", _spoilt(_codec, lambda b: b"junkjunkjunk")),
        Case(f"{_name}, junk behind", _spoilt(_codec, lambda b: b + b"junk")),
        Case(f"{_name}, junk behind, to uncompressed", _spoilt(_codec, lambda b: b + b"junk"), PLAIN),
        Case(f"{_name}, twice", _twice(_codec)),
        Case(f"{_name}, flipped", _spoilt(_codec, lambda b: b[: len(b) // 2] + bytes((b[len(b) // 2] ^ 255,)) + b[len(b) // 2 + 1 :])),
        Case(f"{_name}, seventh byte flipped", _spoilt(_codec, lambda b: b[:6] + bytes((b[6] ^ 255,)) + b[7:])),
        Case(f"{_name}, count 2 of 1", _spoilt(_codec, bytes, count=2)),
        Case(f"{_name}, count 1 of 2", _spoilt(_codec, bytes, one() + one(1))),
        Case(f"{_name}, length one less", _spoilt(_codec, bytes, bytes((one()[0] - 2,)) + one()[1:])),
        Case(f"{_name}, length one more", _spoilt(_codec, bytes, bytes((one()[0] + 2,)) + one()[1:])),
        Case(f"{_name}, length negative", _spoilt(_codec, bytes, b"\x01" + one()[1:])),
        Case(f"{_name}, value past the end", _spoilt(_codec, bytes, sized(b"\0\0\0\0\x20\0"))),
        Case(f"{_name}, value past the record", _spoilt(_codec, bytes, sized(b"\0\0\0\0\x02") + b"\0\0")),
        Case(f"{_name}, headers -1", _spoilt(_codec, bytes, sized(b"\0\0\0\0\0\x01"))),
        Case(f"{_name}, headers past the end", _spoilt(_codec, bytes, sized(b"\0\0\0\0\0\x08"))),
        Case(f"{_name}, header key null", _spoilt(_codec, bytes, sized(b"\0\0\0\0\0\x02\x01\x01"))),
        Case(f"{_name}, varint of six bytes", _spoilt(_codec, bytes, b"\x80\x80\x80\x80\x80\x01" + one())),
        Case(f"{_name}, length one less, to uncompressed", _spoilt(_codec, bytes, bytes((one()[0] - 2,)) + one()[1:]), PLAIN),
        Case(f"{_name}, length negative, to uncompressed", _spoilt(_codec, bytes, b"\x01" + one()[1:]), PLAIN),
        Case(f"{_name}, length one more, to uncompressed", _spoilt(_codec, bytes, bytes((one()[0] + 2,)) + one()[1:]), PLAIN),
        Case(f"{_name}, length largest", _spoilt(_codec, bytes, b"\xfe\xff\xff\xff\x0f" + one()[1:])),
        Case(f"{_name}, value past the end, to uncompressed", _spoilt(_codec, bytes, sized(b"\0\0\0\0\x20\0")), PLAIN),
        Case(f"{_name}, record attributes set", _spoilt(_codec, bytes, sized(b"\x07\0\0\0\0\0"))),
    ]  # fmt: skip
