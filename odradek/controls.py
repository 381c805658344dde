"""What a test may do with a broker besides being its client: the same for one that it started and for one elsewhere."""

from __future__ import annotations

from typing import Any

from odradek import journal
from odradek.control import ControlClient
from odradek.groups import Group
from odradek.transactions import Transaction


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

    def group(self, group_id: str) -> Group:
        """A consumer group, whether it exists or not."""
        return Group(self, group_id)

    def groups(self) -> list[Group]:
        """The groups that exist."""
        return [Group(self, one["group"]) for one in self.control.get("/groups")["groups"]]

    def transaction(self, transactional_id: str) -> Transaction:
        """A transactional id, whether it exists or not."""
        return Transaction(self, transactional_id)

    def transactions(self) -> list[Transaction]:
        """The transactional ids that exist."""
        found = self.control.get("/transactions")["transactions"]
        return [Transaction(self, one["transactional_id"]) for one in found]

    def journal(
        self, *, since: int | None = None, limit: int = 100, client_id: str | None = None, api: str | None = None
    ) -> journal.Journal:
        """The last requests with their answers, connections and warnings, the oldest first; at most `limit`.

        `since` is the `mark` of an earlier journal; `api` is Kafka's name, such as "JoinGroup". With `client_id` or
        `api`, only requests.
        """
        answer = self.control.get("/journal", since=since, limit=limit, client_id=client_id, api=api)
        return journal.read(answer)


class RemoteBroker(Controls):
    """A broker that runs elsewhere, in a container, say: its clients' address, and its control interface."""

    def __init__(self, bootstrap_servers: str, control_url: str, *, token: str | None = None) -> None:
        """`control_url` is `http://host:port`."""
        self.bootstrap_servers = bootstrap_servers
        self._control = ControlClient(control_url, token)

    @property
    def control(self) -> ControlClient:
        return self._control
