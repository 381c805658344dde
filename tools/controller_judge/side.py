"""One controller that is judged: requests to its listener, and the image that its metadata log leads to."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

from kio.schema.fetch.v18.request import FetchPartition, FetchRequest, FetchTopic, ReplicaState

from broker.peers.call import entity_call
from controller.quorum.metadata_batches import decode_batch
from controller.quorum.survey import TOPIC_ID
from metadata.delta import ImageLoader
from metadata.image import MetadataImage
from protocol.primitives import INT32
from protocol.records.batch import read_header

OBSERVER = 999
CAUGHT_UP_WAITS = 2


class ControllerSide:
    """A connection to a controller, used by one thread.

    Attributes:
        elections: how often it was found in another epoch; more than once means that it has failed meanwhile.
    """

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 30)
        self._correlation_id = 0
        self._loader = ImageLoader()
        self._epoch = 0
        self._offset = 0
        self._last_epoch = 0
        self.elections = 0

    def ask(self, request: Any) -> Any:
        """The response to one of kio's requests, of the same version."""
        call = entity_call(request)
        self._correlation_id += 1
        self._socket.sendall(call.frame(call.highest, self._correlation_id, b"judge"))
        size = INT32.unpack(self._exactly(4))[0]
        return call.read(self._exactly(size), call.highest)

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            part = self._socket.recv(size - len(received))
            if not part:
                raise ConnectionError(f"{self.name} closed the connection")
            received += part
        return received

    @property
    def offset(self) -> int:
        """The offset of the last record that the image has."""
        return self._offset - 1

    def image(self) -> MetadataImage:
        """The image of all that is committed."""
        empty = 0
        while empty < CAUGHT_UP_WAITS:
            empty = 0 if self._fetch() else empty + 1
        return self._loader.image

    def _fetch(self) -> bool:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self._epoch,
            fetch_offset=self._offset,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=OBSERVER, replica_epoch=-1),
            max_wait=timedelta(milliseconds=10),
            min_bytes=0,
            max_bytes=1 << 20,
            topics=(FetchTopic(topic_id=TOPIC_ID, partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        (topic,) = self.ask(request).responses
        (told,) = topic.partitions
        if told.error_code.name in ("fenced_leader_epoch", "unknown_leader_epoch", "not_leader_or_follower"):
            self.elections += told.current_leader.leader_epoch != self._epoch
            self._epoch = told.current_leader.leader_epoch
            return True
        assert told.error_code.name == "none", told
        assert told.diverging_epoch.epoch == -1, told
        assert told.snapshot_id.epoch == -1, told
        return self._take(bytes(told.records or b""), told.high_watermark)

    def _take(self, data: bytes, high_watermark: int) -> bool:
        position, begun = 0, self._offset
        while position < len(data):
            header = read_header(data, position)
            if header.next_offset > high_watermark:
                break
            batch = memoryview(data)[position : position + header.size]
            self._loader.load(decode_batch(header, batch, self.name))
            self._loader.publish(header.last_offset, header.leader_epoch, header.max_timestamp)
            self._offset, self._last_epoch = header.next_offset, header.leader_epoch
            position += header.size
        return self._offset > begun
