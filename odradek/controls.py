"""What a test may do with a broker besides being its client: the same for one that it started and for one elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.control import ControlClient
from odradek.topic import Topic


class Controls:
    """The controls of one broker."""

    @property
    def control(self) -> ControlClient:
        """The client of its control interface. Raises RuntimeError if the broker has none."""
        raise NotImplementedError

    def status(self) -> dict[str, Any]:
        """The broker's identity, listeners and health."""
        found: dict[str, Any] = self.control.get("/status")
        return found

    # -- topics and records

    def topic(self, name: str, partitions: int | None = None, configs: Mapping[str, object] | None = None) -> Topic:
        """A topic, created unless it exists; `configs` as `{"cleanup.policy": "compact"}`.

        Raises ControlError if it exists with another number of partitions or other configurations.
        """
        answer = self.control.post("/topics", topic=name, partitions=partitions, configs=configs)
        return Topic(lambda: self.control, name, answer["partitions"])

    def topics(self, internal: bool = False) -> dict[str, Topic]:
        """All topics by name; with `internal`, also those of coordinators."""
        found = self.control.get("/topics")["topics"]
        return {
            one["topic"]: Topic(lambda: self.control, one["topic"], one["partitions"])
            for one in found
            if internal or not one["internal"]
        }


class RemoteBroker(Controls):
    """A broker that runs elsewhere, in a container, say: its clients' address, and its control interface."""

    def __init__(self, bootstrap_servers: str, control_url: str, *, token: str | None = None) -> None:
        """`control_url` is `http://host:port`."""
        self.bootstrap_servers = bootstrap_servers
        self._control = ControlClient(control_url, token)

    @property
    def control(self) -> ControlClient:
        return self._control
