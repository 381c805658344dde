"""A long walk of producers through every rule about epochs and sequences, that Kafka was taken on as well.

Without transactions, since those need a coordinator: `Step` is a batch, `Marker` the end of a transaction that a
coordinator sends to the partition.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from protocol.records.batch import MAX_SEQUENCE, advance_sequence
from protocol.records.build import Record, build_batch

ANSWERS = Path(__file__).with_name("kafka_producers.json")
FIRST_PRODUCER_ID = 1_000_000
SEED = 20250921
STEPS = 400


@dataclass(frozen=True, slots=True)
class Step:
    producer_id: int
    epoch: int
    sequence: int
    count: int

    def batch(self, now: int) -> bytes:
        records = [Record(i, now, b"k", b"v") for i in range(self.count)]
        return bytes(
            build_batch(records, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=self.sequence)
        )


@dataclass(frozen=True, slots=True)
class Marker:
    producer_id: int
    epoch: int
    coordinator_epoch: int
    commit: bool


def steps(first_producer_id: int) -> list[Step | Marker]:
    """Mostly what is in order; also repeats, gaps, old and new epochs, numbers about to wrap."""
    rng = random.Random(SEED)
    history: dict[int, list[Step]] = {}
    due: dict[int, tuple[int, int]] = {}  # epoch and sequence that come next
    found: list[Step | Marker] = []
    for _ in range(STEPS):
        producer_id = first_producer_id + rng.randrange(4)
        past = history.setdefault(producer_id, [])
        epoch, sequence = due.setdefault(producer_id, (1, rng.choice((0, MAX_SEQUENCE - 6))))
        count = rng.choice((1, 1, 2, 5))
        kind = rng.random()
        if kind < 0.08:
            marker = Marker(producer_id, epoch + rng.choice((-1, 0, 0, 1)), rng.randrange(3), rng.random() < 0.5)
            if marker.epoch > epoch:
                due[producer_id] = (marker.epoch, 0)
            found.append(marker)
            continue
        if kind < 0.30 and past:
            step = rng.choice(past[-8:])
        elif kind < 0.34 and past:
            step = Step(producer_id, past[-1].epoch, past[-1].sequence, past[-1].count + 1)
        elif kind < 0.40:
            step = Step(producer_id, epoch, advance_sequence(sequence, rng.choice((1, 2, MAX_SEQUENCE))), count)
        elif kind < 0.46:
            step = Step(producer_id, epoch + rng.choice((-1, 1)), rng.choice((0, sequence, 3)), count)
            if step.epoch > epoch and step.sequence == 0:
                due[producer_id] = (step.epoch, count)
                past.append(step)
        else:
            step = Step(producer_id, epoch, sequence, count)
            due[producer_id] = (epoch, advance_sequence(sequence, count))
            past.append(step)
        found.append(step)
    return found
