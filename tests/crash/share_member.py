"""A member of a share group, as a process that may be killed and frozen at any moment: it prints what it does.

Arguments: host, port, group, member, topic id, partitions, lock duration in ms. Each line of output is a JSON object.
Times are those of the machine's monotonic clock: `sent` is taken before a request goes out, `noted` after its answer
came, so that what the broker did lies between them, wherever this process was frozen.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

from tests.conformance.share_members import ACCEPT, RECORD_LIMIT, REJECT, RELEASE, RENEW, batches
from tests.conformance.wire import Wire

MAX_WAIT_MS = 300
PATIENCE_SECONDS = 20.0
PAUSE_SECONDS = 0.05
LONGEST_WORK_SECONDS = 0.2
LEFT_ALONE = 0
"""Nothing is said of the record: its lock runs out."""

TOO_LATE = -1
"""The record is accepted when its lock has run out."""

KINDS = {ACCEPT: 72, RELEASE: 10, REJECT: 4, RENEW: 4, LEFT_ALONE: 2, TOO_LATE: 8}
"""What is done with what was acquired, and how often."""


class LostError(Exception):
    """The broker is away, or knows this session no longer."""


class Member:
    """Fetches, and says something of what it got, for ever."""

    def __init__(self, host: str, port: int, group: str, name: str, topic_id: str, partitions: int) -> None:
        self._address = host, port
        self._group = group
        self._name = name
        self._topic_id = topic_id
        self._partitions = partitions
        self._chance = random.Random()
        self._epoch = 0
        self._wire: Wire | None = None
        self._asked = 0

    def run(self, lock_seconds: float) -> None:
        note(began=time.monotonic())
        while True:
            try:
                self._take_and_answer(lock_seconds)
            except (LostError, OSError):
                if self._wire is not None:
                    self._wire.close()
                self._wire, self._epoch = None, 0
                time.sleep(PAUSE_SECONDS)

    def _take_and_answer(self, lock_seconds: float) -> None:
        sent = time.monotonic()
        for partition, first, last, count in self._fetch():
            note(got=[partition, first, last, count], sent=sent, noted=time.monotonic())
            (kind,) = self._chance.choices(list(KINDS), list(KINDS.values()))
            held_since = sent
            time.sleep(self._chance.uniform(0, LONGEST_WORK_SECONDS))
            if kind == RENEW:
                time.sleep(lock_seconds / 2)
                held_since = time.monotonic()
                self._acknowledge(partition, first, last, RENEW, sent)
                time.sleep(lock_seconds * 0.6)
                kind = ACCEPT
            if kind == TOO_LATE:
                time.sleep(lock_seconds * self._chance.uniform(1.0, 1.3))
                kind = ACCEPT
            if kind != LEFT_ALONE:
                self._acknowledge(partition, first, last, kind, held_since)

    def _fetch(self) -> list[tuple[int, int, int, int]]:
        """(partition, first offset, last offset, deliveries) of what was acquired."""
        limits = {
            "max_wait": MAX_WAIT_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": self._chance.choice([1, 5, 20]),
            "batch_size": 10,
            "share_acquire_mode": self._chance.choice([0, RECORD_LIMIT]),
        }
        places: list[dict[str, Any]] = []
        if self._epoch == 0:
            places = [{"partition_index": index, "acknowledgement_batches": []} for index in range(self._partitions)]
        answer = self._ask("share_fetch", limits, places)
        return [
            (part["partition_index"], one["first_offset"], one["last_offset"], one["delivery_count"])
            for part in _partitions_of(answer)
            for one in part["acquired_records"]
        ]

    def _acknowledge(self, partition: int, first: int, last: int, kind: int, held_since: float) -> None:
        self._asked += 1
        asked: dict[str, Any] = {"number": self._asked, "kind": kind, "range": [partition, first, last]}
        sent = time.monotonic()
        note(**asked, held_since=held_since, sent=sent)
        places = [{"partition_index": partition, "acknowledgement_batches": batches([(first, last, kind)])}]
        answer = self._ask("share_acknowledge", {"is_renew_ack": kind == RENEW}, places)
        (part,) = _partitions_of(answer)
        note(**asked, held_since=held_since, sent=sent, noted=time.monotonic(), error=part["error_code"])

    def _ask(self, api: str, fields: dict[str, Any], places: list[dict[str, Any]]) -> dict[str, Any]:
        if self._wire is None:
            self._wire = Wire(*self._address, PATIENCE_SECONDS, self._name)
        body = {
            "group_id": self._group,
            "member_id": self._name,
            "share_session_epoch": self._epoch,
            "topics": [{"topic_id": self._topic_id, "partitions": places}] if places else [],
        }
        answer = self._wire.call(api, 2, body | fields)
        if not isinstance(answer, dict) or answer["error_code"] != "0 NONE":
            raise LostError(str(answer))
        self._epoch += 1
        return answer


def _partitions_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for topic in answer["responses"] for part in topic["partitions"]]


def note(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    host, port, group, name, topic_id, partitions, lock_ms = sys.argv[1:]
    Member(host, int(port), group, name, topic_id, int(partitions)).run(int(lock_ms) / 1000)
