"""The Fetch of a broker at another one: requests written and responses read by hand, in versions 15 to 18.

Record data is not copied: an answer's `records` are views of the frame. Layout: `FetchRequest.json`,
`FetchResponse.json`. What only followers of the metadata log need is neither written nor read: directory ids, high
watermark, snapshot ids. These tagged fields are all that the versions differ in.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from .. import uuids
from ..primitives import Buffer, DecodeError, append_uvarint, read_tag_count, read_uvarint, skip_tagged_field, underflow
from ..primitives import skip_tagged_fields as skip_tags
from .fetch_request import FetchPartition, FetchRequest
from .fetch_response import AbortedTransaction, EpochEndOffset, FetchPartitionResponse, FetchResponse
from .parts import LeaderIdAndEpoch, TopicKey, append_topic_key, read_compact_count

LOWEST, HIGHEST = 15, 18

_HEAD = Struct(">iiibii")  # max wait, min bytes, max bytes, isolation level, session id and epoch
_ASKED = Struct(">iiqiqiB")  # with no tags
_INDEXES = Struct(">i")
_REPLICA_STATE = Struct(">BBBiqB")  # its tag's number and size, and no tags in it
_REPLICA_STATE_SIZE = 13
_ANSWER_HEAD = Struct(">ihi")
_ANSWER = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_PREFERRED = Struct(">i")
_EPOCH_END = Struct(">iq")
_LEADER = Struct(">ii")


def encode_request(out: bytearray, request: FetchRequest) -> None:
    """Append the body of a follower's request."""
    out += _HEAD.pack(
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
    )
    append_uvarint(out, len(request.topics) + 1)
    for key, partitions in request.topics:
        append_topic_key(out, key, flexible=True)
        append_uvarint(out, len(partitions) + 1)
        for partition in partitions:
            _append_partition(out, partition)
        out.append(0)
    append_uvarint(out, len(request.forgotten_topics) + 1)
    for key, indexes in request.forgotten_topics:
        append_topic_key(out, key, flexible=True)
        append_uvarint(out, len(indexes) + 1)
        for index in indexes:
            out += _INDEXES.pack(index)
        out.append(0)
    out.append(1)  # the rack is only for consumers
    out += _REPLICA_STATE.pack(1, 1, _REPLICA_STATE_SIZE, request.replica_id, request.replica_epoch, 0)


def _append_partition(out: bytearray, asked: FetchPartition) -> None:
    out += _ASKED.pack(
        asked.partition,
        asked.current_leader_epoch,
        asked.fetch_offset,
        asked.last_fetched_epoch,
        asked.log_start_offset,
        asked.partition_max_bytes,
        0,
    )


def decode_response(buf: bytes, pos: int) -> FetchResponse:
    """The response whose body starts at `pos`. Raises DecodeError."""
    try:
        return _response(buf, pos)
    except (IndexError, StructError):
        raise DecodeError(f"fetch response of {len(buf) - pos} bytes is cut short") from None


def _response(buf: bytes, pos: int) -> FetchResponse:
    throttle_ms, error_code, session_id = _ANSWER_HEAD.unpack_from(buf, pos)
    count, pos = read_compact_count(buf, pos + _ANSWER_HEAD.size, "responses")
    view = memoryview(buf)
    topics: list[tuple[TopicKey, list[FetchPartitionResponse]]] = []
    for _ in range(count):
        if pos + 16 > len(buf):
            raise underflow("topic id", 16, buf, pos)
        topic_id = uuids.from_bytes(buf[pos : pos + 16])
        of_topic, pos = read_compact_count(buf, pos + 16, "partitions")
        partitions = []
        for _ in range(of_topic):
            partition, pos = _partition(view, pos)
            partitions.append(partition)
        pos = skip_tags(buf, pos)
        topics.append((topic_id, partitions))
    return FetchResponse(topics, error_code, session_id, throttle_ms)


def _partition(buf: memoryview, pos: int) -> tuple[FetchPartitionResponse, int]:
    partition = FetchPartitionResponse(*_ANSWER.unpack_from(buf, pos))
    aborted, pos = read_uvarint(buf, pos + _ANSWER.size)
    if aborted > 1:
        partition.aborted_transactions, pos = _aborted(buf, pos, aborted - 1)
    pos += _PREFERRED.size
    size, pos = read_uvarint(buf, pos)
    if size > 1:
        end = pos + size - 1
        if end > len(buf):
            raise DecodeError(f"a fetch response lacks {end - len(buf)} bytes of records")
        partition.records = buf[pos:end]
        pos = end
    return partition, _read_tags(partition, buf, pos)


def _aborted(buf: Buffer, pos: int, count: int) -> tuple[list[AbortedTransaction], int]:
    found = []
    for _ in range(count):
        found.append(AbortedTransaction(*_ABORTED.unpack_from(buf, pos)))
        pos = skip_tags(buf, pos + _ABORTED.size)
    return found, pos


def _read_tags(partition: FetchPartitionResponse, buf: Buffer, pos: int) -> int:
    count, pos = read_tag_count(buf, pos)
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        if tag == 0:
            partition.diverging_epoch = EpochEndOffset(*_EPOCH_END.unpack_from(buf, pos))
        elif tag == 1:
            partition.current_leader = LeaderIdAndEpoch(*_LEADER.unpack_from(buf, pos))
        pos = skip_tagged_field(buf, pos, tag, size)
    return pos
