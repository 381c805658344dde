"""Questions to several brokers of a cluster: answers joined into one, and partitions that are not in sync."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from odradek.cluster.nodes import ClusterBroker
from odradek.control import ControlError, ControlUnavailableError, WaitTimeoutError

Asked = Mapping[str, Any]
"""A partition, or the cluster, as the control interface describes it."""

MOST_NAMED = 5


def behind(cluster: Asked, brokers: Sequence[ClusterBroker]) -> list[str]:
    """List what is not in sync, a sentence each: brokers that run and are fenced, partitions that lack replicas."""
    known = {broker["id"]: broker for broker in cluster["brokers"]}
    fenced = [
        f"broker {broker.index} is fenced"
        for broker in brokers
        if broker.running and known.get(broker.index, {"fenced": True})["fenced"]
    ]
    lacking = list(_lacking(cluster["partitions"]))
    more = [f"and {len(lacking) - MOST_NAMED} more"] if len(lacking) > MOST_NAMED else []
    return [*fenced, *lacking[:MOST_NAMED], *more]


def _lacking(partitions: Sequence[Asked]) -> Iterator[str]:
    for partition in partitions:
        if partition["leader"] < 0 or set(partition["isr"]) != set(partition["replicas"]):
            yield described(partition)


def described(partition: Asked) -> str:
    leader = f"led by broker {partition['leader']}" if partition["leader"] >= 0 else "without a leader"
    replicas, isr = (", ".join(map(str, partition[name])) or "none" for name in ("replicas", "isr"))
    return f"{partition['topic']}-{partition['partition']} is {leader}, has replicas {replicas}, in sync {isr}"


BETWEEN_IDS = "+"
AFTER_BROKER = ":"
"""The fault `0:abc+1:def` is abc of broker 0 and def of broker 1."""

LOOK_S = 0.01
NOT_FOUND = 404

Json = dict[str, Any]


def spread(brokers: Sequence[ClusterBroker], method: str, path: str, values: Mapping[str, Any]) -> Json:
    """Ask all brokers, and join what they answer."""
    match path.strip("/").split("/"):
        case ["faults", ids]:
            return _of_fault(
                brokers, ids, lambda broker, fault_id: broker.control.send(method, f"/faults/{fault_id}", values)
            )
        case ["faults", ids, "wait"]:
            return _wait(brokers, ids, values)
        case ["reset"]:
            return _reset(brokers, values)
    answers = {broker.index: broker.control.send(method, path, values) for broker in brokers}
    first: Json = next(iter(answers.values()))
    if "id" in first:  # a fault was set, or a crash
        return {
            **first,
            "id": BETWEEN_IDS.join(f"{index}{AFTER_BROKER}{each['id']}" for index, each in answers.items()),
        }
    if "faults" in first:
        return {
            "faults": [
                {**fault, "id": f"{index}{AFTER_BROKER}{fault['id']}"}
                for index, each in answers.items()
                for fault in each["faults"]
            ]
        }
    if "share_sessions" in first:
        return _in_flight(first["group"], [*answers.values()])
    if "mark" in first:
        return {"mark": _united([answer["mark"] for answer in answers.values()])}
    return {
        name: sum(answer[name] for answer in answers.values())
        if name in ("removed", "disconnected", "released")
        else value
        for name, value in first.items()
    }


def _in_flight(group: str, answers: Sequence[Json]) -> Json:
    """Join what a share group has in flight: each broker knows it of the partitions that it leads."""
    partitions = [partition for answer in answers for partition in answer["partitions"]]
    return {
        "group": group,
        "share_sessions": sorted({member for answer in answers for member in answer["share_sessions"]}),
        "partitions": sorted(partitions, key=lambda partition: (partition["topic"], partition["partition"])),
    }


def _of_fault(brokers: Sequence[ClusterBroker], ids: str, ask: Callable[[ClusterBroker, str], Json]) -> Json:
    """Join what the brokers say of a fault; one that was started again does not know it any more."""
    found: list[Json] = []
    by_broker = dict(part.split(AFTER_BROKER, 1) for part in ids.split(BETWEEN_IDS))
    for broker in brokers:
        if str(broker.index) not in by_broker:
            continue
        try:
            found.append(ask(broker, by_broker[str(broker.index)]))
        except ControlUnavailableError:
            continue  # it has just ended
        except ControlError as error:
            if error.status != NOT_FOUND:
                raise
    if not found:
        raise ControlError(f"id = {ids}: no running broker has this fault", parameter="id", status=NOT_FOUND)
    return {
        **found[0],
        "id": ids,
        "hits": sum(fault.get("hits", 0) for fault in found),
        "active": any(fault.get("active") for fault in found),
        "requests": [request for fault in found for request in fault.get("requests", ())],
    }


def _wait(brokers: Sequence[ClusterBroker], ids: str, values: Mapping[str, Any]) -> Json:
    hits, timeout = values.get("n", 1), values.get("timeout", 5.0)
    deadline = time.monotonic() + timeout
    while True:
        fault = _of_fault(brokers, ids, lambda broker, fault_id: broker.control.get(f"/faults/{fault_id}"))
        if fault["hits"] >= hits:
            return fault
        if time.monotonic() > deadline:
            raise WaitTimeoutError(
                f"waited {timeout:g} s for {hits} hits of the fault {fault['what']}, and there were {fault['hits']}"
            )
        time.sleep(LOOK_S)


def _reset(brokers: Sequence[ClusterBroker], values: Mapping[str, Any]) -> Json:
    """The controller deletes the topics, so it comes last."""
    answers = [broker.control.post("/reset", **values) for broker in reversed(brokers)]
    return _united(answers)


def _united(lists: Sequence[Json]) -> Json:
    """These lists joined by name; what is in several of them comes once."""
    return {name: list(dict.fromkeys(item for answer in lists for item in answer[name])) for name in lists[0]}
