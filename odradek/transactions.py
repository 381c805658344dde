"""Transactions in a test's hands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, Self

from odradek.control import segment

if TYPE_CHECKING:
    from odradek.controls import Controls

TransactionState = Literal[
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"
]


class Transaction(str):
    """A transactional id of one broker. Every look at it asks the broker anew.

    It is a str too, the id, and clients take it as that.
    """

    def __new__(cls, broker: Controls, transactional_id: str) -> Self:
        if not isinstance(transactional_id, str):
            raise TypeError(f"transactional_id = {transactional_id!r}: expected a str")
        return super().__new__(cls, transactional_id)

    def __init__(self, broker: Controls, transactional_id: str) -> None:
        self.id = str(transactional_id)
        self._broker = broker
        self._path = f"/transactions/{segment(transactional_id)}"

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"Transaction({self.id!r})"

    def describe(self) -> dict[str, Any]:
        """All that the broker says of it; `timeout` and `open_for` are seconds."""
        found: dict[str, Any] = self._broker.control.get(self._path)
        return found

    @property
    def state(self) -> str:
        """Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort; Dead if it does not exist."""
        return str(self.describe()["state"])

    @property
    def producer_id(self) -> int:
        """The id of its producer; -1 if it does not exist."""
        return int(self.describe()["producer_id"])

    @property
    def epoch(self) -> int:
        """The epoch of its producer; -1 if it does not exist."""
        return int(self.describe()["epoch"])

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The partitions of the open transaction, as (topic, partition)."""
        by_topic = self.describe()["partitions"]
        return [(topic, index) for topic, indexes in by_topic.items() for index in indexes]

    def abort(self, *, timeout: float = 5.0) -> None:
        """Fence the producer and abort its open transaction, as Kafka's tools do; return once that is done.

        `timeout` is in seconds. Raises ControlError if no transaction is open.
        """
        self._broker.control.post(f"{self._path}/abort", timeout=timeout)

    def fence(self, *, timeout: float = 5.0) -> None:
        """Give the transactional id a new producer epoch: its producer is a zombie now. An open transaction is aborted.

        As `Admin.fenceProducers` does.
        """
        self._broker.control.post(f"{self._path}/fence", timeout=timeout)

    def wait(self, *, state: TransactionState, timeout: float = 5.0) -> Self:
        """Return once it is in that state; one that does not exist yet is waited for.

        `timeout` is in seconds. Raises WaitTimeoutError, whose text says how it was at the end.
        """
        self._broker.control.post(f"{self._path}/wait", state=state, timeout=timeout)
        return self

    async def wait_async(self, *, state: TransactionState, timeout: float = 5.0) -> Self:
        """Do as `wait`, while other tasks of the event loop go on."""
        return await asyncio.to_thread(self.wait, state=state, timeout=timeout)
