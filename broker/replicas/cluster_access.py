"""How the replicas of a node reach the rest of its cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from broker.config.defs.node import RACK_AWARE_SELECTOR
from broker.config.structured import windows_of
from broker.peers.errors import PeerUnreachableError
from timing.rate import Windows

if TYPE_CHECKING:
    from broker.config.broker_config import BrokerConfig
    from broker.peers.call import Call
    from broker.replicas.leading.alter_partition import AskController

T = TypeVar("T")


class Peer(Protocol):
    """A connection to another broker (`broker.peers.client.PeerClient`)."""

    async def send(self, call: Call[T], timeout_ms: float | None = None) -> T:
        """The answer to a request. Raises PeerError."""
        ...

    def close(self) -> None:
        """End it; what is in flight fails."""


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """The settings of followers and leaders; times in ms, sizes in bytes."""

    lag_time_max_ms: int = 30_000
    fetchers: int = 1
    fetch_max_bytes: int = 1 << 20
    fetch_response_max_bytes: int = 10 << 20
    fetch_min_bytes: int = 1
    fetch_wait_max_ms: int = 500
    fetch_backoff_ms: int = 1_000
    socket_timeout_ms: int = 30_000
    rack_aware: bool = False
    """Consumers are sent to followers in their rack."""
    quota_windows: Windows = field(default_factory=lambda: Windows(11, 1_000))

    @classmethod
    def of(cls, config: BrokerConfig) -> ReplicationSettings:
        return cls(
            config.integer("replica.lag.time.max.ms"),
            config.integer("num.replica.fetchers"),
            config.integer("replica.fetch.max.bytes"),
            config.integer("replica.fetch.response.max.bytes"),
            config.integer("replica.fetch.min.bytes"),
            config.integer("replica.fetch.wait.max.ms"),
            config.integer("replica.fetch.backoff.ms"),
            config.integer("replica.socket.timeout.ms"),
            config.optional_string("replica.selector.class") == RACK_AWARE_SELECTOR,
            windows_of(config, "replication."),
        )


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """What a node is given to follow and to lead.

    `broker_epoch` gives that of this run; `ask_controller` sends an AlterPartition request to the active controller;
    `connect` makes a connection to the broker of that id, or None if its address is not known; `settings` gives the
    settings as they are now.
    """

    broker_epoch: Callable[[], int]
    ask_controller: AskController
    connect: Callable[[int], Peer | None]
    settings: Callable[[], ReplicationSettings]


async def _nobody(_request: Any) -> Any:
    raise PeerUnreachableError("this node is the only one of its cluster")


ALONE = ClusterAccess(lambda: -1, _nobody, lambda _: None, ReplicationSettings)
"""The access of a node that is alone in its cluster."""
