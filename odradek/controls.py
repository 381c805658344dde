"""What a test may do with a broker besides being its client: the same for one that it started and for one elsewhere."""

from __future__ import annotations

from typing import Any

from odradek.control import ControlClient


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


class RemoteBroker(Controls):
    """A broker that runs elsewhere, in a container, say: its clients' address, and its control interface."""

    def __init__(self, bootstrap_servers: str, control_url: str, *, token: str | None = None) -> None:
        """`control_url` is `http://host:port`."""
        self.bootstrap_servers = bootstrap_servers
        self._control = ControlClient(control_url, token)

    @property
    def control(self) -> ControlClient:
        return self._control
