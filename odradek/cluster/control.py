"""The control interface of a cluster: each request goes to the brokers that can answer it.

| about | asked |
| --- | --- |
| topics as a whole, configurations of groups | the controller, or the first broker that runs while it does not |
| records and offsets of a topic | the leader of each partition |
| a group, a transactional id | its coordinator |
| all groups, all transactional ids | the first broker that reaches all coordinators |
| faults, a crash, what a share group has in flight | all running brokers |
| the clock, what there was before a test | all running brokers, and the controller |
| faults of the schema registry | all running brokers; of its other requests the first, once all have a registry |
| everything else | the first broker that runs |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

from odradek.cluster.asking import spread
from odradek.cluster.nodes import ClusterBroker
from odradek.control import Control, ControlError, ControlUnavailableError, WaitTimeoutError, segment

LOOK_S = 0.01
DEFAULT_TIMEOUT_S = 5.0
CHANGE_S = 15.0
"""How long a leader or a coordinator may be missing, and how long brokers may take to hear of a new topic."""

SLICE_S = 0.5
"""A coordinator is waited at for so long; then it is looked whether the group still is where it was."""

ALL_BROKERS = ("crash", "disconnect", "refuse_connections", "throttle", "stall", "faults", "mark")
IN_FLIGHT = ("deliveries", "release", "expire_locks")
"""Each broker has it of the partitions that it leads."""
ALL_NODES = ("clock", "reset")
ONE_BROKER = ("histories", "snapshots")
"""Things that one broker has of its own requests, and of its own data if it is alone."""

NOT_FOUND = 404
MOVED = ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")

Json = dict[str, Any]


class ClusterControl(Control):
    """Answers for a cluster what the control interface of one broker answers for itself; the table above says how."""

    def __init__(self, brokers: Sequence[ClusterBroker], controller: ClusterBroker) -> None:
        self._brokers = brokers
        self._controller = controller
        self._records = TopicRecords(self)

    def send(self, method: str, path: str, values: Mapping[str, Any]) -> Any:
        """Raises ControlError."""
        match path.strip("/").split("/"):
            case ["registry", *rest]:
                return self._of_registry(rest, method, path, values)
            case [kind, *_] if kind in ALL_BROKERS:
                return spread(self.running(), method, path, values)
            case [kind, *_] if kind in ALL_NODES:
                controllers = [self._controller] if self._controller.running else []
                if kind == "reset":  # without the controller no topic can be deleted, which brokers would wait for
                    self._controller.control.get("/status")
                return spread([*controllers, *self.running()], method, path, values)
            case ["topics", name, "records" | "wait" | "offsets" | "truncate" as action]:
                return self._records.send(method, unquote(name), action, values)
            case ["topics", *_] | ["groups", _, "configs"]:
                answer = self.view().control.send(method, path, values)
                if method in ("POST", "DELETE"):
                    self.until_known()
                return answer
            case [kind, *_] if kind in ONE_BROKER:
                raise ControlError(f"{kind}: a cluster has none; one of its brokers may have", status=409)
            case ["groups" | "transactions"]:
                return self._first_that_knows(path)
            case ["groups", name, *rest]:
                return self._of_group(unquote(name), rest, method, path, values)
            case ["transactions", name, *_]:
                return self._at_coordinator("transactional_id", unquote(name), method, path, values)
            case ["explain"] if values.get("group") is not None or values.get("transactional_id") is not None:
                kind = "group" if values.get("group") is not None else "transactional_id"
                return self._at_coordinator(kind, values[kind], method, path, values)
            case _:
                return self.first().control.send(method, path, values)

    def _of_registry(self, rest: list[str], method: str, path: str, values: Mapping[str, Any]) -> Any:
        """The leader of its topic answers, whoever is asked. Each may be that, so all begin to listen."""
        urls = [url for broker in self.running() for url in broker.registry.urls]
        if not rest:
            return {"url": urls[0], "urls": urls}
        if rest == ["faults"]:
            return spread(self.running(), method, path, values)
        return self.first().control.send(method, path, values)

    def _of_group(self, name: str, rest: list[str], method: str, path: str, values: Mapping[str, Any]) -> Any:
        if rest and rest[0] in IN_FLIGHT:
            return spread(self.running(), method, path, values)
        if rest == ["wait"] and values.get("share_sessions") is not None:
            return self._wait_for_share_sessions(name, method, path, values)
        return self._at_coordinator("group", name, method, path, values)

    def running(self) -> list[ClusterBroker]:
        """The brokers that run. Raises ControlUnavailableError if none does."""
        found = [broker for broker in self._brokers if broker.running]
        if not found:
            raise ControlUnavailableError("no broker of the cluster is running", status=503)
        return found

    def first(self) -> ClusterBroker:
        """The first broker that runs. Raises ControlUnavailableError if none does."""
        return self.running()[0]

    def view(self) -> ClusterBroker:
        """Choose the node whose view of the cluster counts: the controller, if it runs."""
        return self._controller if self._controller.running else self.first()

    def describe(self, topic: str | None = None) -> Json:
        """Brokers and partitions: all, or those of a topic."""
        found: Json = self.view().control.get("/cluster", topic=topic)
        return found

    def partitions(self, topic: str) -> list[Json]:
        """The partitions of a topic in their order. Raises ControlError if there is no such topic."""
        found: list[Json] = self.describe(topic)["partitions"]
        if not found:
            known = sorted({each["topic"] for each in self.describe()["partitions"]})
            raise ControlError(
                f"topic = {topic!r}: there is no such topic; there are {', '.join(known) or 'none'}",
                parameter="topic",
                status=404,
            )
        return found

    def until_known(self) -> None:
        """Return when all running brokers that the controller takes for alive know what it knows."""
        now = self.describe()
        alive = [broker["id"] for broker in now["brokers"] if not broker["fenced"]]
        deadline = time.monotonic() + CHANGE_S
        for broker in self._brokers:
            while broker.index in alive and broker.running and _offset_of(broker) < now["offset"]:
                if time.monotonic() > deadline:
                    return  # it is frozen, or cut off: the test knows
                time.sleep(LOOK_S)

    def at_broker_of(self, find: Callable[[], int], send: Callable[[Control], Any], what: str) -> Any:
        """The answer of `send` at the broker whose number `find` gives; both are called again while that changes.

        Raises ControlError, if there is none for a while.
        """
        deadline = time.monotonic() + CHANGE_S
        while True:
            index = find()
            why = "it has none"
            if 0 <= index < len(self._brokers):
                why = f"broker {index} is not running"
                if self._brokers[index].running:
                    try:
                        return send(self._brokers[index].control)
                    except ControlError as error:
                        if not str(error).startswith(MOVED):
                            raise
                        why = str(error)
            if time.monotonic() > deadline:
                raise ControlError(f"{what} was not reached within {CHANGE_S:g} s: {why}", status=503)
            time.sleep(LOOK_S)

    def _first_that_knows(self, path: str) -> Any:
        """The answer of a broker that reaches all others: one that is cut off from them cannot know what they do."""
        for broker in self.running():
            answer = broker.control.get(path)
            if not answer.get("unknown"):
                break
        return answer

    def _at_coordinator(self, kind: str, name: str, method: str, path: str, values: Mapping[str, Any]) -> Any:
        def find() -> int:
            index: int = self.view().control.get("/cluster/coordinator", **{kind: name})["broker"]
            return self.first().index if index < 0 and not self._has_coordinators(kind) else index

        what = f"the coordinator of {name}"
        if not path.endswith("/wait"):
            return self.at_broker_of(find, partial(_send, method, path, values), what)
        timeout = DEFAULT_TIMEOUT_S if values.get("timeout") is None else values["timeout"]
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            part = {**values, "timeout": round(min(max(left, 0.0), SLICE_S), 3)}
            try:
                return self.at_broker_of(find, partial(_send, method, path, part), what)
            except WaitTimeoutError as error:
                if left <= SLICE_S:
                    said = str(error).replace(f"waited {part['timeout']:g} s", f"waited {timeout:g} s", 1)
                    raise WaitTimeoutError(said) from None

    def _wait_for_share_sessions(self, name: str, method: str, path: str, values: Mapping[str, Any]) -> Any:
        """Wait until so many members have a share session, with any broker, then for what else is wanted."""
        timeout = DEFAULT_TIMEOUT_S if values.get("timeout") is None else values["timeout"]
        deadline = time.monotonic() + timeout
        wanted = values["share_sessions"]
        while (found := self._share_sessions(path)) != wanted:
            if time.monotonic() >= deadline:
                raise WaitTimeoutError(f"waited {timeout:g} s for {wanted} share sessions: group {name} has {found}")
            time.sleep(LOOK_S)
        rest = {key: value for key, value in values.items() if key != "share_sessions"}
        if all(rest.get(key) is None for key in ("state", "members", "lag")):
            return self.send("GET", path.removesuffix("/wait"), {})
        left = max(deadline - time.monotonic(), 0.0)
        return self._at_coordinator("group", name, method, path, {**rest, "timeout": left})

    def _share_sessions(self, path: str) -> int:
        try:
            return len(self.send("GET", path.removesuffix("/wait") + "/deliveries", {})["share_sessions"])
        except ControlError as error:
            if error.status != NOT_FOUND:
                raise
            return 0  # there is no such group yet

    def _has_coordinators(self, kind: str) -> bool:
        topic = "__consumer_offsets" if kind == "group" else "__transaction_state"
        return bool(self.describe(topic)["partitions"])


def _send(method: str, path: str, values: Mapping[str, Any], control: Control) -> Any:
    return control.send(method, path, values)


def _offset_of(broker: ClusterBroker) -> int:
    try:
        offset: int = broker.control.get("/cluster", topic="")["offset"]
    except ControlUnavailableError:
        return -1
    return offset


HOW = ("partition", "from", "committed", "timeout", "count")
"""The parameters of a wait that do not say what a record has to be."""


class TopicRecords:
    """Answers what the control interface of one broker answers for a topic that it leads alone."""

    def __init__(self, control: ClusterControl) -> None:
        self._control = control

    def send(self, method: str, topic: str, action: str, values: Mapping[str, Any]) -> Json:
        """`action` is the end of the path: records, wait, offsets, truncate."""
        match action, method:
            case "records", "POST":
                return self._produce(topic, list(values["records"]))
            case "records", _:
                return self._read(topic, values)
            case "wait", _:
                return self._wait(topic, values)
            case _:
                by_partition: Json = {}
                for index in self._indexes(topic, values):
                    answer = self._at(topic, index, method, action, {**values, "partition": index})
                    by_partition |= answer["partitions"]
                return {"partitions": by_partition}

    def _indexes(self, topic: str, values: Mapping[str, Any]) -> list[int]:
        """The partitions that are asked for. Raises ControlError."""
        known = [partition["partition"] for partition in self._control.partitions(topic)]
        wanted = values.get("partition")
        if wanted is None:
            return known
        if wanted not in known:
            raise ControlError(
                f"partition = {wanted}: expected 0 to {len(known) - 1}, as {topic} has {len(known)} partitions",
                parameter="partition",
            )
        return [wanted]

    def _at(self, topic: str, index: int, method: str, action: str, values: Mapping[str, Any]) -> Any:
        """Ask the leader of a partition."""
        path = f"/topics/{segment(topic)}/{action}"

        def leader() -> int:
            found: int = self._control.partitions(topic)[index]["leader"]
            return found

        def send(control: Control) -> Any:
            return control.send(method, path, values)

        return self._control.at_broker_of(leader, send, f"the leader of {topic}-{index}")

    def _produce(self, topic: str, records: list[Json]) -> Json:
        """Each partition gets its records in their order."""
        self._control.partitions(topic)
        path = f"/topics/{segment(topic)}/distribution"
        try:
            chosen = self._control.first().control.post(path, records=records)["partitions"]
        except ControlError as error:
            if error.status != NOT_FOUND:
                raise
            self._control.until_known()  # the topic is new
            chosen = self._control.first().control.post(path, records=records)["partitions"]
        written: list[Json] = [{} for _ in records]
        for index in sorted(set(chosen)):
            places = [place for place, other in enumerate(chosen) if other == index]
            several = [{**records[place], "partition": index} for place in places]
            answer = self._at(topic, index, "POST", "records", {"records": several})
            for place, record in zip(places, answer["records"], strict=True):
                written[place] = record
        return {"records": written}

    def _read(self, topic: str, values: Mapping[str, Any]) -> Json:
        """Records of all partitions; with a timeout, wait for the first."""
        deadline = time.monotonic() + (values.get("timeout") or 0)
        starts = _starts(values.get("from"), self._indexes(topic, values))
        while True:
            found: Json = {"records": [], "next": {}, "more": False}
            for index, start in starts.items():
                part = {**values, "partition": index, "from": start, "timeout": 0}
                answer = self._at(topic, index, "GET", "records", part)
                found["records"] += answer["records"]
                found["next"] |= answer["next"]
                found["more"] = found["more"] or answer["more"]
            if found["records"] or time.monotonic() >= deadline:
                return found
            time.sleep(LOOK_S)

    def _wait(self, topic: str, values: Mapping[str, Any]) -> Json:
        """The records that are waited for, of all partitions together. Raises WaitTimeoutError."""
        timeout = DEFAULT_TIMEOUT_S if values.get("timeout") is None else values["timeout"]
        count = 1 if values.get("count") is None else values["count"]
        deadline = time.monotonic() + timeout
        starts = _starts(values.get("from"), self._indexes(topic, values))
        while True:
            is_last = time.monotonic() >= deadline
            found: list[Json] = []
            missing: list[str] = []
            for index, start in starts.items():
                records, failure = self._matching(topic, index, {**values, "partition": index, "from": start})
                found += records
                missing += failure
            if len(found) >= count:
                return {"records": found}
            if is_last:
                said = "\n".join(line for text in missing for line in text.splitlines()[1:])
                raise WaitTimeoutError(
                    f"{topic} did not have {count} such records within {timeout:g} s: {len(found)} match\n{said}"
                )
            time.sleep(LOOK_S)

    def _matching(self, topic: str, index: int, values: Json) -> tuple[list[Json], list[str]]:
        """The records of a partition that match now, all of them; and what the broker says if there are none."""
        match = {name: value for name, value in values.items() if name not in HOW and value is not None}
        if not match:
            return self._all_of(topic, index, values), []
        found: list[Json] = []
        failure: list[str] = []
        while not failure:
            try:
                part = {**values, "timeout": 0, "count": len(found) + 1}
                found = self._at(topic, index, "POST", "wait", part)["records"]
            except WaitTimeoutError as error:
                failure = [str(error)]
        return found, failure

    def _all_of(self, topic: str, index: int, values: Json) -> list[Json]:
        found: list[Json] = []
        more, start = True, values["from"]
        while more:
            part = {"partition": index, "from": start, "committed": values.get("committed"), "timeout": 0}
            answer = self._at(topic, index, "GET", "records", part)
            found += answer["records"]
            more, start = answer["more"], str(answer["next"][str(index)])
        return found


def _starts(text: str | None, indexes: list[int]) -> dict[int, str]:
    """The parameter `from` by partition."""
    if text is None or ":" not in text:
        return dict.fromkeys(indexes, text or "0")
    given = dict(pair.split(":", 1) for pair in text.split(","))
    unknown = [index for index in given if not index.isdecimal() or int(index) not in indexes]
    if unknown:
        raise ControlError(f"from_: partition {unknown[0]} is not read", parameter="from")
    return {index: given.get(str(index), "0") for index in indexes}
