"""One budget of bytes for all that threads have decompressed at one time.

A batch of a few kilobytes may unpack to 128 MB. Each thread that unpacks one would take that at once, so they take it
in turns: many small sections, or one large.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..primitives import Buffer
from .compression import LEAST_LIMIT, LEAST_RATIO, Compression, DecompressionLimitError, decompress

BUDGET_BYTES = 64 << 20
FREE_BYTES = 1 << 20
SHARE_BYTES = 16 << 20
"""What is tried first: no codec says beforehand how much its data unpacks to. The smallest does not wait for others."""


class Budget:
    """Bytes that are given to threads in the order in which they ask; who needs more than all gets all, alone."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self._door = threading.Lock()  # whoever waits for bytes keeps it, so that nobody overtakes
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Wait until so many bytes are free, and keep them until the end of the `with`."""
        size = min(size, self.total)
        with self._door, self._changed:
            self._changed.wait_for(lambda: self.free >= size)
            self.free -= size
        try:
            yield
        finally:
            with self._changed:
                self.free += size
                self._changed.notify()


BUDGET = Budget(BUDGET_BYTES)


@contextmanager
def decompressed(codec: Compression, data: Buffer, limit: int | None = None) -> Iterator[bytes]:
    """As `decompress`, for a thread, which may have to wait: drop the section before the end of the `with`.

    A section that does not fit into a share is unpacked again once no other is there.
    """
    most = max(LEAST_LIMIT, LEAST_RATIO * len(data)) if limit is None else limit
    section = bytes(data) if codec is Compression.NONE else _within(codec, data, min(most, FREE_BYTES))
    if section is not None:
        yield section
        return
    with BUDGET.taken(SHARE_BYTES):
        section = _within(codec, data, min(most, SHARE_BYTES))
        if section is not None:
            yield section
            return
    with BUDGET.taken(BUDGET.total):
        yield decompress(codec, data, most)


def _within(codec: Compression, data: Buffer, share: int) -> bytes | None:
    """The section, None if it is larger than the share."""
    try:
        return decompress(codec, data, share)
    except DecompressionLimitError:
        return None
