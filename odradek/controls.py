"""The control of a broker by a test, besides being its client: the same for one that it started and for one elsewhere.

`Controls` needs the address of clients and the client of a control interface, and gives everything else: topics,
groups, transactions, faults, the clock, snapshots, the journal. `Broker` and `Cluster` are controls of what they
started (`SecuredControls`, whose clients may need TLS or a password), `RemoteBroker` of what runs elsewhere.
"""

from __future__ import annotations

import os
import secrets
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.assertions import History, require_exactly_once
from odradek.clock import Clock, Snapshot, path_of
from odradek.control import Control, ControlClient, ControlError, in_thread
from odradek.faults import FaultControls
from odradek.groups import Group, Transaction
from odradek.record import Record
from odradek.registry import Registry
from odradek.report import ENTRIES, Explanation, Journal, read_journal, report_text
from odradek.security import Security, client_config
from odradek.topic import DEFAULT_TIMEOUT, Topic

if TYPE_CHECKING:
    from odradek.chaos.play import Chaos

Mark = dict[str, list[str]]
"""The things that there were at some time: the ids of topics, groups, transactional ids."""


class Controls(FaultControls):
    """The controls of one broker."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """`host:port` for a client's bootstrap servers."""

    @property
    def clock(self) -> Clock:
        """The broker's time: `advance`, `freeze`, `resume`, `set`, `now`."""
        return Clock(self._client)

    @property
    def registry(self) -> Registry:
        """The broker's schema registry, which begins to listen when it is first asked for."""
        return Registry(self._client, self._registry_begun)

    def _registry_begun(self, urls: list[str]) -> None:
        """Note where the registry listens."""

    def status(self) -> dict[str, Any]:
        """The broker's identity, listeners and health."""
        found: dict[str, Any] = self.control.get("/status")
        return found

    def client_config(self, kind: str, **more: Any) -> dict[str, Any]:
        """The configuration of a client: of "aiokafka", "confluent", "kafka-python" or "java"; `more` is added."""
        return client_config(self.bootstrap_servers, kind, **more)

    def mark(self) -> Mark:
        """Note what topics, groups and transactional ids there are now, for `reset`."""
        found: Mark = self.control.get("/mark")["mark"]
        return found

    def reset(self, mark: Mark | None = None) -> dict[str, list[str]]:
        """Delete all topics, groups and transactional ids but those of the mark; remove faults, and reset the clock.

        Whoever still uses them: clients need not be closed before. Returns what was deleted.
        """
        deleted: dict[str, list[str]] = self.control.post("/reset", mark=mark)
        return deleted

    def group(
        self,
        group_id: str,
        *,
        auto_offset_reset: str | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> Group:
        """A group of any kind, whether it exists or not; `configs` are set, as {"share.delivery.count.limit": 2}.

        `auto_offset_reset` is where a share group begins in a partition that it has not read yet: "earliest", or
        "latest" (Kafka's default). It is the configuration share.auto.offset.reset; consumers of other groups have
        their own.
        """
        group = Group(self._client, group_id)
        begins = {} if auto_offset_reset is None else {"share.auto.offset.reset": auto_offset_reset}
        return group.configure({**begins, **(configs or {})}) if begins or configs else group

    def groups(self) -> dict[str, Group]:
        """The groups that exist, by id."""
        found = (Group(self._client, group["group"]) for group in self._all("groups"))
        return {group: group for group in found}

    def _all(self, kind: str) -> list[dict[str, Any]]:
        """Ask for what all coordinators know. Raises ControlError if one of them does not answer."""
        answer = self.control.get(f"/{kind}")
        if answer.get("unknown"):
            raise ControlError(f"not all {kind} are known: {'; '.join(answer['unknown'])}", status=503)
        found: list[dict[str, Any]] = answer[kind]
        return found

    def transaction(self, transactional_id: str) -> Transaction:
        """A transactional id, whether it exists or not."""
        return Transaction(self._client, transactional_id)

    def transactions(self) -> dict[str, Transaction]:
        """The transactional ids that exist, by id."""
        found = (
            Transaction(self._client, transaction["transactional_id"]) for transaction in self._all("transactions")
        )
        return {transaction: transaction for transaction in found}

    def journal(
        self, *, since: int | None = None, limit: int = 100, client_id: str | None = None, api: str | None = None
    ) -> Journal:
        """The last requests with their answers, connections and warnings, the oldest first; at most `limit`.

        `since` is the `mark` of an earlier journal; `api` is Kafka's name, such as "JoinGroup". With `client_id` or
        `api`, only requests.
        """
        answer = self.control.get("/journal", since=since, limit=limit, client_id=client_id, api=api)
        return read_journal(answer)

    def explain(
        self, *, group: str | None = None, topic: str | None = None, transactional_id: str | None = None
    ) -> Explanation:
        """Explain why a consumer gets nothing, and what to do: of one group, topic or transactional id. Print it."""
        found = self.control.get("/explain", group=group, topic=topic, transactional_id=transactional_id)
        return Explanation(found)

    def report(self, *, since: int | None = None) -> str:
        """Topics, groups, open transactions, last requests and warnings, as a text; `since` a mark of the journal."""
        return report_text(self.control.get("/report", since=since, limit=ENTRIES))

    # -- topics and records

    def topic(self, name: str, partitions: int | None = None, configs: Mapping[str, object] | None = None) -> Topic:
        """A topic, created unless it exists; `configs` as `{"cleanup.policy": "compact"}`.

        Raises ControlError if it exists with another number of partitions or other configurations.
        """
        answer = self.control.post("/topics", topic=name, partitions=partitions, configs=configs)
        return Topic(self._client, name, answer["partitions"])

    def topics(self, internal: bool = False) -> dict[str, Topic]:
        """All topics by name; with `internal`, also those of coordinators."""
        answer = self.control.get("/topics")["topics"]
        found = (
            Topic(self._client, topic["topic"], topic["partitions"])
            for topic in answer
            if internal or not topic["internal"]
        )
        return {topic: topic for topic in found}

    def assert_exactly_once(
        self,
        source: Topic | str,
        sink: Topic | str,
        key: str | Callable[[Record], Hashable] = "key",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Assert that each record of `source` led to exactly one committed record of `sink`, and nothing else did.

        `key` says what belongs together: "key", "value", a field of JSON ("value.order.id"), "headers.NAME", or a
        function of a Record. Records that are missing may still come for `timeout` seconds. The AssertionError names
        what is missing, doubled, or from nowhere.
        """
        if not isinstance(key, str) and not callable(key):
            raise TypeError(f"key = {key!r}: expected the name of a field, or a function of a Record")
        if isinstance(key, str):
            self.control.post("/exactly-once", source=str(source), sink=str(sink), key=key, timeout=timeout)
        else:
            topics = (self._existing(source), self._existing(sink))
            require_exactly_once(*topics, key, timeout)

    assert_exactly_once_async = in_thread(assert_exactly_once)

    def history(self) -> History:
        """Record from now on what producers send and are acknowledged, and what consumers are sent.

        `with broker.history() as h: ...; h.check()` names acknowledged records that are lost, doubled or reordered, and
        aborted ones that were read. Crashes and restarts of the broker do not end it.
        """
        return History(self._client)

    # -- production

    last_chaos: Chaos | None = None
    """The schedule that was asked for last, for the report of a test that fails."""

    def chaos(
        self,
        seed: int | None = None,
        *,
        minutes: float = 1.0,
        of: Sequence[str] | None = None,
        every: float | None = None,
        schedule: str | None = None,
    ) -> Chaos:
        """Draw what happens in production: leaders move, replies are lost, disks are slow, sessions end, clocks jump.

        `with odradek.chaos(seed=7, minutes=2, of=["lost_replies", "clock_jumps"]): ...` plays it while the block runs,
        one event every 2 seconds (`every`) on average. Without a seed one is drawn. When the test fails, its schedule
        is shown; `schedule` is such a text, to play it again. `chaos(...).check(run)` shrinks it: see there.
        """
        from odradek.chaos import schedule as schedules
        from odradek.chaos.play import Chaos

        if schedule is not None:
            found = Chaos(self, schedules.read(schedule))
        else:
            seed = secrets.randbelow(1_000_000) if seed is None else seed
            kinds = schedules.USUAL if of is None else of
            events = schedules.draw(seed, minutes * 60, kinds, schedules.EVERY_S if every is None else every)
            found = Chaos(self, events, seed)
        self.last_chaos = found
        return found

    # -- snapshots

    def snapshot(self, path: str | os.PathLike[str] | None = None) -> Snapshot:
        """Take a snapshot of the whole state at one moment, while clients are connected.

        `path` is a new folder where the broker runs; by default one that goes with the broker.
        """
        chosen = self._snapshot_folder() if path is None else path_of(path)
        return Snapshot.of(self.control.post("/snapshots", path=chosen), self._client)

    def restore(self, snapshot: Snapshot | str | os.PathLike[str]) -> None:
        """Go back to a snapshot. Clients stay connected; what they wait for is answered with errors to be retried.

        All that has happened since is gone: topics, records, offsets, and the sequence numbers of producers.
        """
        self.control.post("/snapshots/restore", path=path_of(snapshot))

    def _snapshot_folder(self) -> str | None:
        """Choose the folder of a snapshot for which none is given; None lets the broker choose."""
        return None

    def _client(self) -> Control:
        """Return the present client of the control interface: a restart of the broker makes a new one."""
        return self.control

    def _existing(self, topic: Topic | str) -> Topic:
        return topic if isinstance(topic, Topic) else Topic(self._client, topic, 0)


class RemoteBroker(Controls):
    """A broker that runs elsewhere, in a container, say: its clients' address, and its control interface."""

    def __init__(self, bootstrap_servers: str, control_url: str, *, token: str | None = None) -> None:
        """`control_url` is `http://host:port`."""
        self._bootstrap_servers = bootstrap_servers
        self._control = ControlClient(control_url, token)

    @property
    def bootstrap_servers(self) -> str:
        return self._bootstrap_servers

    @property
    def control(self) -> ControlClient:
        return self._control


class SecuredControls(Controls):
    """Knows what clients need to get in."""

    _security: Security | None = None

    def client_config(
        self, kind: str, *, user: str | None = None, mechanism: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """The configuration of a client: of "aiokafka", "confluent", "kafka-python" or "java"; `more` is added.

        `user` is one of the `users` of a broker with security, by default the first; `mechanism` is PLAIN (the
        default), SCRAM-SHA-256 or SCRAM-SHA-512.
        """
        found = super().client_config(kind)
        if self._security is not None:
            found |= self._security.client_config(kind, user, mechanism)
        elif user is not None or mechanism is not None:
            raise ValueError("user and mechanism: expected none, as the broker was made without security")
        return found | more

    @property
    def ca_file(self) -> Path:
        """The certificate (PEM) of the authority that clients trust; RuntimeError without TLS."""
        if self._security is None or not self._security.uses_tls:
            raise RuntimeError("the broker was not made with security='SASL_SSL' or 'SSL'")
        return self._security.ca_file
