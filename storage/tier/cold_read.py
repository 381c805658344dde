"""A read of records that are in remote storage alone, as the reads of a Fetch see it.

How it works: a Fetch never waits for the store in its turn. Its plan begins a load, has nothing yet, and says so; the
Fetch waits as it waits for new records, and is told when the load is over (`TieredLog.changed`). The next plan for the
same offset finds what was loaded. So a slow store makes nobody wait but those who read from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from protocol.errors import KafkaError
from protocol.primitives import Buffer
from storage.log.log_segments import LogOffsetMetadata
from storage.log.read_plan import ReadPlan, Records
from storage.segments.txn_index import AbortedTxn

if TYPE_CHECKING:
    from storage.log.log_segments import LogSegments
    from storage.workers import Workers


class Loaded(NamedTuple):
    """What a load has found: bytes from the batch that has the offset on, where they are, and aborted transactions.

    The bytes have the first batch, of `first_size` bytes, whole.
    """

    data: Buffer
    first_size: int
    segment_base: int
    position: int
    aborted: list[AbortedTxn]


class Loads(Protocol):
    """The loads of a log (`TieredLog`).

    Attributes:
        max_wait_ms: how long a Fetch waits for one.
    """

    @property
    def max_wait_ms(self) -> int: ...

    def load(self, offset: int) -> asyncio.Task[Loaded]:
        """The load of what is at an offset: one under way, one that is over and not taken yet, or a new one."""

    def take(self, offset: int, load: asyncio.Task[Loaded]) -> Loaded:
        """What a load has found; it is not kept any longer. Raises KafkaError."""


class ColdPlan(ReadPlan):
    """The plan of a read that begins in remote storage; `is_pending` until its load is over."""

    __slots__ = ("_aborted", "_begun", "_tier", "max_wait_ms")

    is_cold = True

    def __init__(
        self,
        tier: Loads,
        segments: LogSegments,
        workers: Workers,
        failure: Callable[[OSError], KafkaError],
        start_offset: int,
        *,
        max_bytes: int,
        upper: LogOffsetMetadata,
        min_one_message: bool,
    ) -> None:
        super().__init__(
            segments,
            workers,
            failure,
            None,
            start_offset,
            max_bytes=max_bytes,
            upper=upper,
            min_one_message=min_one_message,
            at_once=0,
        )
        self._tier = tier
        self._aborted: list[AbortedTxn] = []
        self._begun: asyncio.Task[Loaded] | None = None
        self.max_wait_ms = tier.max_wait_ms

    @property
    def _load(self) -> asyncio.Task[Loaded]:
        """The load, which begins when it is first wanted: a follower is only told where its records are."""
        if self._begun is None:
            self._begun = self._tier.load(self.start_offset)
        return self._begun

    @property
    def is_pending(self) -> bool:
        """Whether the store is still being asked."""
        return not self._load.done()

    def try_records(self) -> Records | None:
        """What was loaded, nothing as long as the load is pending. Raises what the load has."""
        return b"" if self.is_pending else self._taken()

    def try_read(self) -> Buffer | None:
        return None if self.is_pending else self._taken()

    async def records(self) -> Records:
        return await self.read()

    async def read(self) -> Buffer:
        await asyncio.wait((self._load,))
        return self._taken()

    def _taken(self) -> Buffer:
        loaded = self._tier.take(self.start_offset, self._load)
        wanted = max(self.max_bytes, loaded.first_size) if self._min_one else self.max_bytes
        self.first_entry_incomplete = wanted < loaded.first_size
        self.start = LogOffsetMetadata(self.start_offset, loaded.segment_base, loaded.position)
        self._aborted = loaded.aborted
        return memoryview(loaded.data)[: max(wanted, 0)]

    def aborted_transactions(self, _size: int, _log_end_offset: int) -> list[AbortedTxn]:
        """Those that touch all that was loaded; what lies behind the records that are sent does no harm."""
        return self._aborted
