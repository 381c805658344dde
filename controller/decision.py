"""The common part of all decisions: what they are given, and what they give.

A decision is a pure function of an image and a request. It returns the records that make the change, and the response,
which counts once these records are durable. Refusals are part of the response; an error that concerns the request as a
whole is raised, and then nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from uuid import UUID

from protocol.durations import ZERO
from protocol.errors import PolicyViolation, Timeout

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.response import CreatableTopicConfigs

R = TypeVar("R")
S = TypeVar("S")

MOST_RECORDS = 10_000
"""The most records of one request (`QuorumController.MAX_RECORDS_PER_USER_OP`)."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """The records of a change, in order, and the client's response."""

    records: Sequence[Any]
    response: R

    def map(self, respond: Callable[[R], S]) -> Decision[S]:
        """The same records, with the response that `respond` makes of this one."""
        return Decision(self.records, respond(self.response))


class ConfigSchema(Protocol):
    """The configurations that there are, and the values where nothing is set (Kafka's `KafkaConfigSchema`)."""

    def check(
        self, resource_type: int, name: str, configs: Mapping[str, str | None], before: Mapping[str, str] = {}
    ) -> None:
        """Raises InvalidConfiguration or InvalidRequest if the resource cannot have all these configurations.

        `before` are those that it has now.
        """

    def known(self, resource_type: int, configs: Mapping[str, str]) -> dict[str, str]:
        """Those that this release knows: what another one has left in the metadata counts for nothing."""

    def is_list(self, resource_type: int, name: str) -> bool:
        """Whether parts may be appended to this configuration and subtracted from it."""

    def default(self, resource_type: int, name: str) -> str:
        """The text of this configuration where it is not set."""

    def topic_value(self, configs: Mapping[str, str], name: str) -> str:
        """The text of one configuration that holds for a topic with these: `true`, also where `TRUE` was written."""

    def effective_topic_configs(self, configs: Mapping[str, str]) -> tuple[CreatableTopicConfigs, ...]:
        """Everything that holds for a topic with these configurations, by name."""

    @property
    def partition_count(self) -> int:
        """`num.partitions`."""

    @property
    def replication_factor(self) -> int:
        """`default.replication.factor`."""


class MutationQuota(Protocol):
    """One request's view of its client's quota for changes of topics (KIP-599)."""

    def charge(self, topic: str, partitions: int) -> None:
        """Raises ThrottlingQuotaExceeded."""

    @property
    def throttle_time(self) -> timedelta:
        """How long the client has to wait."""


class NoQuota:
    """For requests that nobody sent."""

    throttle_time = ZERO

    def charge(self, topic: str, partitions: int) -> None:
        """Count nothing."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The services that decisions need besides the image.

    `new_id` makes random ids. `is_offline` tells whether a partition's log cannot be used: of a topic's name and an
    index.
    """

    schema: ConfigSchema
    new_id: Callable[[], UUID]
    node_id: int
    is_offline: Callable[[str, int], bool] = lambda _topic, _index: False


def require_time_left(timeout: timedelta) -> None:
    """Raises Timeout for a request that allows no time: it is never begun."""
    if timeout <= ZERO:
        raise Timeout


def require_few_records(count: int) -> None:
    """Raises PolicyViolation for more records than one request may write."""
    if count > MOST_RECORDS:
        raise PolicyViolation(
            f"The request would write {count} metadata records; the most is {MOST_RECORDS}. Ask for less at once."
        )
