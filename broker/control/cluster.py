"""The cluster: its brokers and partitions as this node knows them, leaders to move, and connections to cut."""

from __future__ import annotations

from typing import Any

from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.membership.controller_service import ControllerService
from broker.node import Node
from broker.peers.cuts import Address

TOPIC = Parameter("topic", Kind.STRING, "the name of a topic")
BROKER = Parameter("broker", Kind.INTEGER, "the id of the broker", required=True, least=0)
Json = dict[str, Any]


def _describe(node: Node, values: Values) -> Json:
    image = node.cluster.cache.image
    wanted = values.get("topic")
    return {
        "cluster": node.cluster.id,
        "controller": node.cluster.controller_service is not None,
        "offset": image.offset,
        "brokers": [
            {"id": broker.id, "fenced": broker.fenced, "in_controlled_shutdown": broker.in_controlled_shutdown}
            for broker in sorted(image.cluster.brokers.values(), key=lambda broker: broker.id)
        ],
        "partitions": [
            {
                "topic": topic.name,
                "partition": index,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
            }
            for topic in image.topics.sorted()
            if wanted in (None, topic.name)
            for index, partition in topic.in_order()
        ],
    }


def _coordinator(node: Node, values: Values) -> Json:
    if len(values) != 1:
        raise ControlError("expected group or transactional_id", parameter="group")
    image, coordinators = node.cluster.cache.image, node.coordinators
    if "group" in values:
        return {"broker": coordinators.groups.leader_for(image, values["group"])}
    return {"broker": coordinators.transactions.leader_for(image, values["transactional_id"])}


async def _move_leader(node: Node, values: Values) -> None:
    await _service(node).move_leader(values["topic"], values["partition"], values["broker"])


async def _expire(node: Node, values: Values) -> None:
    await _service(node).end_session(values["broker"])


def _service(node: Node) -> ControllerService:
    if node.cluster.controller_service is None:
        raise ControlError("this node is not the controller of other nodes: ask the node that is", status=409)
    return node.cluster.controller_service


def _cut(node: Node, values: Values) -> None:
    node.state.cuts.cut([_address(text) for text in values["addresses"]])


def _heal(node: Node, _values: Values) -> None:
    node.state.cuts.cut(())


def _address(text: object) -> Address:
    host, _, port = str(text).rpartition(":")
    if not host or not port.isdecimal():
        raise ControlError(f"addresses: {text!r} is none; expected host:port", parameter="addresses")
    return host.strip("[]"), int(port)


ENDPOINTS = (
    Endpoint("GET", "/cluster", "Brokers and partitions, as this node knows them.", _describe, (TOPIC,)),
    Endpoint(
        "GET",
        "/cluster/coordinator",
        "The broker that coordinates a group, or a transactional id; -1 if there is none.",
        _coordinator,
        (
            Parameter("group", Kind.STRING, "the id of a group"),
            Parameter("transactional_id", Kind.STRING, "a transactional id"),
        ),
    ),
    Endpoint(
        "POST",
        "/cluster/leader",
        "Lets a broker lead a partition of which it is a replica in sync; on the controller alone.",
        _move_leader,
        (
            Parameter("topic", Kind.STRING, "the name of a topic", required=True),
            Parameter("partition", Kind.INTEGER, "the index of a partition", required=True, least=0),
            BROKER,
        ),
    ),
    Endpoint(
        "POST",
        "/cluster/expire",
        "Ends the session of a broker now, as if it had been silent for that long; on the controller alone.",
        _expire,
        (BROKER,),
    ),
    Endpoint(
        "POST",
        "/network/cut",
        "Cuts the connections that this node opens to other nodes, and lets it open none.",
        _cut,
        (Parameter("addresses", Kind.ARRAY, "host:port of each listener that is cut; no others are", required=True),),
    ),
    Endpoint("DELETE", "/network/cut", "Lets this node connect to all others again.", _heal),
)
