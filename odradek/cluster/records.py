"""Records of a topic whose partitions different brokers lead: each partition is asked of its leader."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odradek.control import Control, ControlError, WaitTimeoutError, segment

if TYPE_CHECKING:
    from odradek.cluster.control import ClusterControl

LOOK_S = 0.01
DEFAULT_TIMEOUT_S = 5.0
NOT_FOUND = 404
HOW = ("partition", "from", "committed", "timeout", "count")
"""The parameters of a wait that do not say what a record has to be."""

Json = dict[str, Any]


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
        known = [one["partition"] for one in self._control.partitions(topic)]
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
        """What the leader of a partition answers."""
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
    given = dict(one.split(":", 1) for one in text.split(","))
    unknown = [index for index in given if not index.isdecimal() or int(index) not in indexes]
    if unknown:
        raise ControlError(f"from_: partition {unknown[0]} is not read", parameter="from")
    return {index: given.get(str(index), "0") for index in indexes}
