"""A transaction that hangs, as clients before KIP-890 could bring about: no coordinator knows of its record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.client import transactional
from tests.conformance import batches
from tests.conformance.runner import Topic, produce_body
from tests.conformance.wire import Wire
from tests.waiting import wait_until

UNVERIFIED = {"transaction.partition.verification.enable": False}
"""What lets a broker take such a record."""

TRANSACTIONAL_ID = "hangs"
TWO_HOURS_MS = 7_200_000
TRANSACTION = 1


def hang(leader: str, topic: str) -> None:
    """Write a record of two hours ago to partition 0, whose leader has this address."""
    with _connected(leader) as wire:
        producer = _producer(wire)
        record = batches.batch(
            base_timestamp=int(time.time() * 1000) - TWO_HOURS_MS,
            attributes=batches.TRANSACTIONAL,
            pid=producer["producer_id"],
            epoch=producer["producer_epoch"],
            sequence=0,
        )
        body = produce_body(Topic(topic, ""), {0: record}) | {"transactional_id": TRANSACTIONAL_ID}
        answer = wire.call("produce", 9, body)
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == "0 NONE"


def _producer(wire: Wire) -> dict[str, int]:
    found: dict[str, int] = {}

    def is_initialized() -> bool:
        """Whether the coordinator was there: it may have to load its partition first."""
        coordinator = wire.call("find_coordinator", 3, {"key": TRANSACTIONAL_ID, "key_type": TRANSACTION})
        if coordinator["error_code"] != "0 NONE":
            return False
        body = {"transactional_id": TRANSACTIONAL_ID, "transaction_timeout": 1000}
        with _connected(f"{coordinator['host']}:{coordinator['port']}") as there:
            answer = there.call("init_producer_id", 4, body | {"producer_id": -1, "producer_epoch": -1})
        found.update(producer_id=answer["producer_id"], producer_epoch=answer["producer_epoch"])
        return bool(answer["error_code"] == "0 NONE")

    wait_until(is_initialized, "no coordinator has initialized the producer")
    return found


@contextmanager
def _connected(address: str) -> Iterator[Wire]:
    host, port = address.rsplit(":", 1)
    wire = Wire(host, int(port), transactional.SECONDS)
    try:
        yield wire
    finally:
        wire.close()
