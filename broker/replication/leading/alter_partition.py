"""Asks the controller to change in-sync replicas (Kafka's `DefaultAlterPartitionManager`).

Theory of operation. One AlterPartition request is in flight at a time; what is submitted meanwhile goes into the next,
so that the changes of many partitions share a request (up to `MOST_AT_ONCE`). Of a partition one change is waiting or
in flight. Each change gets one outcome. A request that fails as a whole (no controller is to be found, or our broker
epoch is old, since the node is registering anew) is sent again after a pause, with what was submitted meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from broker.peers.call import PeerError
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from timing.clock import Clock

logger = structlog.get_logger(__name__)

RETRY_MS = 50
"""Pause before a request is sent again."""

MOST_AT_ONCE = 300
"""Changes in one request: the controller decides on all of them before it does anything else."""

AskController = Callable[[Any], Awaitable[Any]]
"""Sends an AlterPartitionRequest to the active controller; gives the AlterPartitionResponse.

Raises PeerError if it is not reached, KafkaError if it refuses the request as a whole."""


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A proposed ISR: the epochs that it is based on, and (broker id, broker epoch) of each replica; -1: not known."""

    topic_id: UUID
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]

    @property
    def key(self) -> tuple[UUID, int]:
        return self.topic_id, self.index


class IsrOutcome(NamedTuple):
    """The controller's answer to a change; what follows `error` counts if that is `none`."""

    error: ErrorCode
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class _Waiting(NamedTuple):
    change: IsrChange
    done: Callable[[IsrOutcome], None]


class AlterPartition:
    """See the theory of operation above. `broker_epoch` gives the node's present one."""

    def __init__(self, node_id: int, broker_epoch: Callable[[], int], ask: AskController, clock: Clock) -> None:
        self._node_id = node_id
        self.broker_epoch = broker_epoch
        self._ask = ask
        self._clock = clock
        self._waiting: dict[tuple[UUID, int], _Waiting] = {}
        self._task: asyncio.Task[None] | None = None
        self._complaint = ""
        self._stopped = False

    def submit(self, change: IsrChange, done: Callable[[IsrOutcome], None]) -> bool:
        """Ask for a change; `done` is called once, later. False, and nothing is asked, if one waits already."""
        if self._stopped or change.key in self._waiting:
            return False
        self._waiting[change.key] = _Waiting(change, done)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        return True

    async def stop(self) -> None:
        """Ask for nothing more; no outcome comes from now on."""
        self._stopped = True
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._waiting:
                try:
                    is_done = await self._ask_for(list(islice(self._waiting.values(), MOST_AT_ONCE)))
                except Exception as error:  # noqa: BLE001 - logged; no change may wait for ever
                    self._complain(repr(error), unexpected=error)
                    is_done = False
                if not is_done:
                    await self._clock.sleep(RETRY_MS)
        finally:
            self._task = None

    async def _ask_for(self, asked: list[_Waiting]) -> bool:
        """Send one request; whether every change in it was made. If not, the next request has to wait."""
        try:
            response = await self._ask(_request(self._node_id, self.broker_epoch(), [each.change for each in asked]))
        except (PeerError, KafkaError) as error:
            self._complain(str(error))
            return False
        if response.error_code is not ErrorCode.none:
            self._complain(response.error_code.name)
            return False
        self._complaint = ""
        answers = {
            (topic.topic_id, partition.partition_index): IsrOutcome(
                partition.error_code, partition.leader_epoch, partition.partition_epoch, tuple(partition.isr)
            )
            for topic in response.topics
            for partition in topic.partitions
        }
        for waiting in asked:
            answer = answers.get(waiting.change.key)
            if answer is not None and self._waiting.pop(waiting.change.key, None) is not None:
                waiting.done(answer)
        return len(answers) == len(asked) and all(outcome.error is ErrorCode.none for outcome in answers.values())

    def _complain(self, error: str, unexpected: Exception | None = None) -> None:
        """Log why a request has failed, once until that changes: it is sent again soon."""
        if error != self._complaint:
            logger.warning("in-sync replicas not changed", error=error, exc_info=unexpected)
            self._complaint = error


def _request(node_id: int, broker_epoch: int, changes: Iterable[IsrChange]) -> Any:
    from kio.schema.alter_partition.v3.request import AlterPartitionRequest, BrokerState, PartitionData, TopicData

    ordered = sorted(changes, key=lambda change: change.key)
    return AlterPartitionRequest(
        broker_id=node_id,
        broker_epoch=broker_epoch,
        topics=tuple(
            TopicData(
                topic_id=topic_id,
                partitions=tuple(
                    PartitionData(
                        partition_index=change.index,
                        leader_epoch=change.leader_epoch,
                        new_isr_with_epochs=tuple(
                            BrokerState(broker_id=broker_id, broker_epoch=epoch) for broker_id, epoch in change.isr
                        ),
                        partition_epoch=change.partition_epoch,
                    )
                    for change in of_topic
                ),
            )
            for topic_id, of_topic in groupby(ordered, key=lambda change: change.topic_id)
        ),
    )
