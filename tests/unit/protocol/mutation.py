"""Bodies of messages that somebody has damaged: a reader reads them, or refuses them with a sentence."""

from __future__ import annotations

import random
from collections.abc import Callable

from protocol.primitives import DecodeError

PIECES = (b"\xff" * 5, b"\x80\0\0\0", b"\x7f\xff")


def mutated(body: bytes, rng: random.Random, *, cut: float = 0.5, within: int | None = None) -> bytes:
    """The body, cut short with that probability, and changed at up to three places, of the first `within` bytes."""
    changed = bytearray(body)
    if rng.random() < cut:
        del changed[rng.randrange(len(changed) + 1) :]
    for _ in range(rng.randrange(4)):
        at = rng.randrange(min(len(changed), within or len(changed)) + 1)
        changed[at : at + rng.randrange(3)] = rng.choice([rng.randbytes(2), *PIECES])
    return bytes(changed)


def check_mutations(
    make: Callable[[], bytes],
    read: Callable[[bytes], object],
    rng: random.Random,
    count: int,
    within: int | None = None,
) -> None:
    """Read so many mutated bodies: some are refused, with a text, and some are read."""
    refused = 0
    for _ in range(count):
        body = mutated(make(), rng, within=within)
        try:
            read(body)
        except DecodeError as error:
            refused += 1
            assert str(error)
    assert 0 < refused < count
