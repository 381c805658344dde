"""A controller that is told of a cluster's brokers, and what it has said of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener

from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration
from tools.controller_judge.side import ControllerSide

FEATURES = {
    "metadata.version": (7, 33),
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}


def directory(broker_id: int, number: int = 0) -> UUID:
    return UUID(int=(broker_id << 64) + 1000 + number)


@dataclass
class Told:
    """A side with what only it knows: the epochs of the brokers."""

    side: ControllerSide
    cluster_id: str
    epochs: dict[int, int] = field(default_factory=dict)
    image: MetadataImage = field(default_factory=MetadataImage)

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        found = self.image.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    def register(self, broker_id: int, incarnation: UUID, previous: int, directories: int = 1) -> str:
        """Register a broker; the name of the answer's code."""
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=self.cluster_id,
            incarnation_id=incarnation,
            listeners=(Listener(name="PLAINTEXT", host="localhost", port=9000 + broker_id, security_protocol=0),),
            features=tuple(
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in FEATURES.items()
            ),
            rack=None,
            log_dirs=tuple(directory(broker_id, number) for number in range(directories)),
            previous_broker_epoch=previous,
        )
        response = self.side.ask(request)
        if response.error_code.name == "none":
            self.epochs[broker_id] = response.broker_epoch
        return str(response.error_code.name)

    def heartbeat(
        self,
        broker_id: int,
        fence: bool = False,
        shut_down: bool = False,
        caught_up: bool = True,
        stale: bool = False,
        offline: int = 0,
    ) -> tuple[Any, ...]:
        """Send a broker's heartbeat; the parts of the answer that can be compared."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs.get(broker_id, -1) + stale,
            current_metadata_offset=self.side.offset if caught_up else -1,
            want_fence=fence,
            want_shut_down=shut_down,
            offline_log_dirs=tuple(directory(broker_id, number) for number in range(offline)),
        )
        said = self.side.ask(request)
        return (said.error_code.name, said.is_caught_up, said.is_fenced, said.should_shut_down)
