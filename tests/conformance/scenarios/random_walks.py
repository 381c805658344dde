"""Seeded mixtures of good and bad appends, reads and lookups on one topic. The "version" is the seed."""

from __future__ import annotations

import random
from typing import Any

from tests.conformance.batches import record
from tests.conformance.runner import Talk, Topic, produce_body, scenario

PARTITIONS = 3
KEYS = (None, b"k", b"k", b"other")
RECORDED_SEEDS = range(16)
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"compression_type": "gzip"},
    {"compression_type": "uncompressed"},
    {"compression_type": "zstd"},
    {"message_timestamp_type": "LogAppendTime"},
    {"cleanup_policy": "compact"},
    {"max_message_bytes": "400"},
    {"index_interval_bytes": "0", "segment_index_bytes": "40"},
    {"message_timestamp_before_max_ms": "14400000"},
    {"flush_messages": "1"},
)


@scenario("random_walks", RECORDED_SEEDS)
def walk(t: Talk, seed: int) -> None:
    rng = random.Random(seed)
    settings = rng.choice(SETTINGS)
    # What a broker's own compression makes of the bytes decides what fits: only limits that do not depend on it.
    limits = (1, 1 << 20) if "compression_type" in settings else (1, 150, 400, 1 << 20)
    walker = Walker(t, rng, t.topic("a", PARTITIONS, **settings), limits)
    for i in range(40):
        step = rng.choices(
            (walker.produce, walker.fetch, walker.fetch_on, walker.list_offsets, walker.epochs), (8, 4, 4, 3, 1)
        )[0]
        step(f"{i}")


class Walker:
    def __init__(self, t: Talk, rng: random.Random, topic: Topic, limits: tuple[int, ...]) -> None:
        self.t, self.rng, self.topic, self.limits = t, rng, topic, limits
        self.sequences: dict[tuple[int, int], int] = {}
        self.session: tuple[int, int, int] = (0, 0, 12)  # id, next epoch, version

    # ---- appends

    def produce(self, step: str) -> None:
        rng = self.rng
        version = rng.randint(3, 13)
        data = {p: self._records(p) for p in rng.sample(range(PARTITIONS + 1), rng.choice((1, 1, 1, 2)))}
        body = produce_body(self.topic, data, acks=rng.choice((-1, -1, 1, 1, 3) if rng.random() < 0.2 else (-1, 1)))
        self.t.call(f"{step} produce {version}", "produce", version, body)

    def _records(self, partition: int) -> bytes:
        rng, t = self.rng, self.t
        n = rng.choice((1, 1, 2, 5))
        deltas = [rng.randint(0, 60) for _ in range(n)]
        records = [
            record(
                rng.randbytes(rng.choice((0, 5, 40, 200))),
                rng.choice(KEYS),
                offset_delta=i,
                timestamp_delta=d,
            )
            for i, d in enumerate(deltas)
        ]
        base = t.t0 + rng.randint(0, 1000)
        header: dict[str, Any] = {"attributes": rng.choice((0, 0, 0, 1, 2, 3, 4)), "base_timestamp": base}
        header["max_timestamp"] = header["base_timestamp"] + max(deltas)
        if rng.random() < 0.5:
            pid = rng.choice((701, 702))
            sequence = self.sequences.get((pid, partition), 0)
            header |= {"pid": pid, "epoch": 0, "sequence": max(0, sequence + rng.choice((0, 0, 0, 0, -n, 1)))}
            self.sequences[pid, partition] = sequence + n
        if rng.random() < 0.25:
            header |= rng.choice(
                (
                    {"count": n + 1}, {"last_offset_delta": n}, {"base_offset": 3}, {"magic": rng.choice((0, 1, 3, 9))},
                    {"crc": 1}, {"epoch": 1}, {"max_timestamp": -1}, {"base_timestamp": t.t0 - 8 * 3_600_000},
                    {"base_timestamp": t.t0 + 8 * 3_600_000}, {"attributes": rng.choice((5, 8, 16, 32, 64))},
                    {"length": rng.choice((0, 13, 60, 5000))}, {"leader_epoch": 5}, {"sequence": -1},
                )
            )  # fmt: skip
        data = bytearray(t.batch(records, **header))
        if rng.random() < 0.1:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.05:
            data = data[: rng.randrange(len(data))]
        return bytes(data)

    # ---- reads

    def _asked(self, partition: int) -> dict[str, Any]:
        rng = self.rng
        return {
            "partition": partition,
            "fetch_offset": rng.choice((0, 0, rng.randint(0, 30), -1)),
            "partition_max_bytes": rng.choice(self.limits),
            "current_leader_epoch": rng.choice((-1, -1, -1, 0, 1)),
            "last_fetched_epoch": rng.choice((-1, -1, -1, 0, 1)),
        }

    def _topics(self) -> list[dict[str, Any]]:
        chosen = self.rng.sample(range(PARTITIONS + 1), self.rng.randint(1, 3))
        return [{"topic": self.topic.name, "topic_id": self.topic.id, "partitions": [self._asked(p) for p in chosen]}]

    def fetch(self, step: str) -> None:
        rng = self.rng
        version = rng.randint(4, 18)
        body: dict[str, Any] = {
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": rng.choice(self.limits),
            "session_epoch": -1,
        }
        body |= {"isolation_level": rng.choice((0, 1)), "topics": self._topics()}
        self._read(f"{step} fetch {version}", version, body)

    def fetch_on(self, step: str) -> None:
        """The next request of a session, now and then its first or one out of turn."""
        rng = self.rng
        sid, epoch, version = self.session
        if sid == 0 or rng.random() < 0.1:
            sid, epoch, version = 0, 0, rng.randint(7, 18)
        epoch_sent = epoch + 1 if rng.random() < 0.05 else epoch
        topics = self._topics() if epoch == 0 or rng.random() < 0.4 else []
        body: dict[str, Any] = {
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": rng.choice(self.limits),
            "topics": topics,
        }
        body |= {"session_id": sid, "session_epoch": epoch_sent}
        if epoch and rng.random() < 0.2:
            gone = {"topic": self.topic.name, "topic_id": self.topic.id, "partitions": [rng.randrange(PARTITIONS)]}
            body["forgotten_topics_data"] = [gone]
        answer = self._read(f"{step} fetch on {version}", version, body)
        if answer.get("error_code") == "0 NONE":
            self.session = (answer["session_id"], epoch_sent + 1, version)

    def _read(self, step: str, version: int, body: dict[str, Any]) -> Any:
        """Read it all. Sizes and checksums may be those of the broker's own compression."""
        return self.t.call(step, "fetch", version, body, ignore=("size", "crc", "unfinished_bytes"))

    # ---- lookups

    def list_offsets(self, step: str) -> None:
        rng = self.rng
        version = rng.randint(1, 10)
        times = (-1, -2, -3, -4, -5, self.t.t0, self.t.t0 + rng.randint(0, 1100), self.t.t0 + rng.randint(0, 1100))
        asked = [{"partition_index": p, "timestamp": rng.choice(times)} for p in range(PARTITIONS)]
        body = {
            "replica_id": -1,
            "isolation_level": rng.choice((0, 1)),
            "topics": [{"name": self.topic.name, "partitions": asked}],
        }
        self.t.call(f"{step} list offsets {version}", "list_offsets", version, body)

    def epochs(self, step: str) -> None:
        asked = [{"partition": p, "leader_epoch": self.rng.choice((-1, 0, 1))} for p in range(PARTITIONS)]
        body = {"replica_id": -1, "topics": [{"topic": self.topic.name, "partitions": asked}]}
        self.t.call(f"{step} epochs", "offset_for_leader_epoch", 4, body)
