"""Scenarios, and running one of them against a broker.

A scenario is a function of a `Talk` and a version; each `call` or `raw` in it is a named step, whose answer is
normalised and kept. It is run once for every version it names, on topics of a fresh prefix, which it deletes after.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance import batches, schema
from tests.conformance.contract import UNORDERED
from tests.conformance.normalise import Normaliser
from tests.conformance.wire import CLIENT_ID, Closed, Frame, Outcome, Silent, Wire, decode

ODD_HOURS_AGO_MS = 3 * 3_600_000


@dataclass(frozen=True, slots=True)
class Scenario:
    api: str
    name: str
    versions: tuple[int, ...]
    play: Callable[[Talk, int], None]


SCENARIOS: dict[tuple[str, str], Scenario] = {}


def scenario(api: str, versions: Iterable[int] = (0,)) -> Callable[[Callable[[Talk, int], None]], Any]:
    """Register the function under the API whose answers it pins."""

    def register(play: Callable[[Talk, int], None]) -> Callable[[Talk, int], None]:
        key = (api, play.__name__)
        if key in SCENARIOS:
            raise KeyError(f"scenario {key} twice")
        SCENARIOS[key] = Scenario(api, play.__name__, tuple(versions), play)
        return play

    return register


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: str


@dataclass(slots=True)
class Talk:
    """What a scenario holds: connections, topics of its own, and the transcript."""

    host: str
    port: int
    prefix: str = field(default_factory=lambda: f"c{secrets.token_hex(4)}-")
    t0: int = field(default_factory=lambda: int(time.time() * 1000) - ODD_HOURS_AGO_MS)
    steps: dict[str, Any] = field(default_factory=dict)
    normalise: Normaliser = field(init=False)
    _wires: list[Wire] = field(default_factory=list)
    _main: Wire | None = None
    _made: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.normalise = Normaliser(self.prefix, self.host, self.port, self.t0)

    # ---- connections

    def connect(self, timeout: float = 3.0, client_id: str = CLIENT_ID, source: str | None = None) -> Wire:
        wire = Wire(self.host, self.port, timeout, client_id, source)
        self._wires.append(wire)
        return wire

    @property
    def main(self) -> Wire:
        """The connection that steps use unless told otherwise; made anew after a close."""
        if self._main is None:
            self._main = self.connect()
        return self._main

    def exchange(self, data: bytes, *, timeout: float, framed: bool, half_close: bool) -> Outcome:
        """What comes of bytes, or of a frame of them, on a connection of their own."""
        wire = self.connect(timeout)
        if framed:
            wire.send_frame(data)
        else:
            wire.send_bytes(data)
        if half_close:
            wire.half_close()
        return wire.receive()

    # ---- steps

    def call(
        self,
        step: str,
        api: str,
        version: int,
        body: dict[str, Any],
        *,
        wire: Wire | None = None,
        timeout: float | None = None,
        ignore: tuple[str, ...] = (),
        pick: Callable[[dict[str, Any]], Any] | None = None,
    ) -> Any:
        """Send the request, keep the answer (or what `pick` takes of it), and return it as it came; {} if none came."""
        answer = (wire or self.main).call(api, version, body, timeout)
        if isinstance(answer, Closed | Silent):
            if wire is None:
                self._main = None
            self.keep(step, answer)
            return {}
        kept = pick(answer) if pick else answer
        self.keep(step, kept, unordered=UNORDERED.get(api, ()), ignore=ignore)
        return answer

    def raw(
        self,
        step: str,
        data: bytes,
        *,
        api: str | None = None,
        version: int = 0,
        correlation_id: int = 1,
        timeout: float = 2.0,
        framed: bool = True,
        half_close: bool = False,
    ) -> None:
        """Send bytes on a connection of their own; an answer is read as the API's if one is named, else as hex."""
        outcome = self.exchange(data, timeout=timeout, framed=framed, half_close=half_close)
        if isinstance(outcome, Frame):
            self.keep(step, decode(outcome, api, version, correlation_id) if api else {"hex": outcome.data.hex()})
        else:
            self.keep(step, outcome)

    def keep(self, step: str, answer: Any, **how: tuple[str, ...]) -> None:
        """Put an answer, or any value that the scenario worked out, into the transcript."""
        if step in self.steps:
            raise KeyError(f"step {step!r} twice")
        match answer:
            case Closed():
                self.steps[step] = "closed"
            case Silent():
                self.steps[step] = "silence"
            case _:
                self.steps[step] = self.normalise(answer, **how)

    # ---- topics, which are no steps

    def name(self, short: str) -> str:
        """The topic's full name; deleted after the run if it came to be."""
        self._made.add(self.prefix + short)
        return self.prefix + short

    def topic(self, short: str, partitions: int = 1, **configs: str) -> Topic:
        """A new topic, every partition of which answers already. Config names have `_` for `.`."""
        name = self.name(short)
        wanted = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": wanted}
        answer = self.main.call("create_topics", 7, {"topics": [topic], "timeout": 10_000})
        if isinstance(answer, Closed | Silent) or answer["topics"][0]["error_code"] != "0 NONE":
            raise RuntimeError(f"{short} not created: {answer}")
        topic_id = answer["topics"][0]["topic_id"]
        self.normalise.name_id(topic_id, f"id of {short}")
        self.ready(name, partitions)
        return Topic(name, topic_id)

    def ready(self, name: str, partitions: int = 1) -> None:
        """Wait until every partition of the topic has its log."""
        asked = [{"partition_index": p, "timestamp": -2} for p in range(partitions)]
        self.until(
            f"{name} ready",
            lambda: self._all_none(
                "list_offsets", 5, {"replica_id": -1, "topics": [{"name": name, "partitions": asked}]}
            ),
        )

    def gone(self, name: str) -> None:
        """Wait until the broker has forgotten the topic."""
        body = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        self.until(f"{name} gone", lambda: self.main.call("metadata", 9, body)["topics"][0]["error_code"][0] == "3")

    def until(self, what: str, true: Callable[[], bool], seconds: float = 10) -> None:
        """Poll for what a broker does in its own time. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            time.sleep(0.005)

    def _all_none(self, api: str, version: int, body: dict[str, Any]) -> bool:
        answer = self.main.call(api, version, body)
        return all(p["error_code"] == "0 NONE" for t in answer["topics"] for p in t["partitions"])

    # ---- records

    def batch(self, records: Any = 1, **header: Any) -> bytes:
        """`batches.batch` at the run's own time."""
        return batches.batch(records, **{"base_timestamp": self.t0} | header)

    def fill(self, topic: Topic, partition: int, *datas: bytes) -> None:
        """Append each as one Produce request; any error is the scenario's."""
        for data in datas:
            answer = self.main.call("produce", 9, produce_body(topic, {partition: data}))
            if (
                isinstance(answer, Closed | Silent)
                or answer["responses"][0]["partition_responses"][0]["error_code"] != "0 NONE"
            ):
                raise RuntimeError(f"append to {topic.name}-{partition}: {answer}")

    def end(self) -> None:
        """Delete the topics and close the connections, as far as the broker still answers."""
        try:
            if self._made:
                topics = [{"name": name} for name in sorted(self._made)]
                with contextlib.suppress(OSError):
                    self.connect(10).call("delete_topics", 6, {"topics": topics, "timeout": 10_000})
        finally:
            for wire in self._wires:
                wire.close()


def produce_body(
    topic: Topic, data: Mapping[int, bytes | None], *, acks: int = -1, timeout: int = 1500
) -> dict[str, Any]:
    """A Produce request to one topic, by its name or its id as the version has it."""
    partitions = [{"index": index, "records": records} for index, records in data.items()]
    entry = {"name": topic.name, "topic_id": topic.id, "partition_data": partitions}
    return {"acks": acks, "timeout": timeout, "topic_data": [entry]}


def run(which: Scenario, version: int, host: str, port: int) -> dict[str, Any]:
    """The transcript: step name -> normalised answer. A scenario that stops early says so in the step "stopped"."""
    talk = Talk(host, port)
    try:
        which.play(talk, version)
    except Exception as exc:  # noqa: BLE001 - a broker that misbehaves breaks scenarios in any way; it is a result
        talk.steps["stopped"] = talk.normalise.text(f"{type(exc).__name__}: {exc}")[:500]
    finally:
        talk.end()
    return talk.steps


__all__ = ["SCENARIOS", "Outcome", "Scenario", "Talk", "Topic", "produce_body", "run", "scenario", "schema"]
