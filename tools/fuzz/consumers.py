"""What members of consumer groups (KIP-848) say in `fuzz`: mostly what a client would say next.

Who gets which partitions goes by the order of Kafka's hash maps, so `hidden` takes them out of answers. A member's
epoch may still differ, by chance, where a broker makes ids up, as it does for classic members: who has to give
something up, and so stays behind, goes by the ids too. A Kafka 4.1 beside itself, asked the same of both kinds of
members mixed, told epochs 2 and 4 in one conversation and 4 and 6 in another, in every other run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tools.fuzz.symbols import Held, Named, Shares, Subscribed
from tools.fuzz.wild import Wild

API = "consumer_group_heartbeat"
TOPIC, PARTITIONS = "e", 12
"""The topic that groups share; who gets how many of so many partitions does not depend on the order of ids."""
STATIC = {"k3": "inst", "k4": "inst"}
"""Two members that are the same instance."""
MEMBERS = ("k1", "k1", "k1", "k2", "k2", "k3", "k4")
SAYS = {"beat": 5, "own": 8, "full": 2, "subscribe": 2, "before": 2, "leave": 2, "away": 2, "join": 1, "odd": 1}
PATTERNS = ("e", "e.*", "[a-e]", "nothing", "(e|nothing)", "a.+", "(")
REJOINS = ("110", "25", "82", "69")
"""The codes of errors after which a client joins anew."""


def ids_made_up(apis: Sequence[str]) -> bool:
    """Whether groups may have members of which each broker knows by another id."""
    return API in apis and "join_group" in apis


def heartbeat(
    draw: Wild, group: str, version: int, joined: set[str], drawn: dict[str, Any], *, ids_made_up: bool
) -> dict[str, Any]:
    """The body, of which a field is now and then what was drawn for it.

    Where ids are made up nobody wishes an assignor: what "range" leaves goes by their order.
    """
    member = draw.one(*MEMBERS)
    slot = f"{group}/{member}"
    epoch: Any = Held("epoch", slot, 0)
    says = draw.rng.choices(tuple(SAYS), tuple(SAYS.values()))[0] if slot in joined else "join"
    body: dict[str, Any] = dict.fromkeys(drawn) | {
        "group_id": Named(group),
        "member_id": member,
        "rebalance_timeout": -1,
    }
    body["instance_id"] = STATIC.get(member)
    match says:
        case "join":
            epoch = 0
            body |= {"topic_partitions": [], "rebalance_timeout": 60_000} | subscription(draw, version)
        case "own":
            body["topic_partitions"] = Held("assigned", slot, [])
        case "full":
            body |= {"topic_partitions": Held("assigned", slot, []), "rebalance_timeout": 60_000}
            body |= subscription(draw, version)
        case "subscribe":
            body |= subscription(draw, version)
        case "before":
            epoch = Held("epoch", slot, 0, draw.one(-1, -1, -2, 1))
            body["topic_partitions"] = draw.one(None, [], Held("assigned", slot, []))
        case "leave":
            epoch = -1
        case "away":
            epoch = -2 if body["instance_id"] else -1
        case "odd":
            body |= draw.one({"rack_id": "rack"}, {"rebalance_timeout": 30_000}, {"server_assignor": "range"})
    body["member_epoch"] = epoch
    if ids_made_up:
        body["server_assignor"] = None
    if version == 0 and not ids_made_up:
        drawn = drawn | {"member_id": member}  # the broker would make one up for an empty one
    return draw.mixed(body, drawn)


def subscription(draw: Wild, version: int) -> dict[str, Any]:
    """One topic most of the time: the order of several goes by their ids, which the brokers make up."""
    if version > 0 and draw.chance(0.2):
        pattern = draw.one(*PATTERNS)
        names = draw.one(None, None, [], [Named(TOPIC)])
        return {"subscribed_topic_names": names, "subscribed_topic_regex": Named(pattern)}
    names = draw.rng.choices(([Named(TOPIC)], [], [Named("a")], [Named("missing")], [Named("c")]), (16, 1, 1, 1, 1))[0]
    return {"subscribed_topic_names": names, "server_assignor": draw.one(None, None, "uniform", "range")}


def classic_subscription(draw: Wild) -> Any:
    return Subscribed(TOPIC, draw.one(None, None, (), tuple(range(PARTITIONS))))


def classic_share(draw: Wild) -> Any:
    return Shares(TOPIC, draw.one((), tuple(range(PARTITIONS)), tuple(range(PARTITIONS // 2))))


TELL_OF_SHARES = (API, "consumer_group_describe", "sync_group", "describe_groups")
"""APIs in whose answers partitions are those that members are assigned."""


def hidden(value: Any, key: str = "") -> Any:
    """The answer without the numbers of assigned partitions."""
    if isinstance(value, dict):
        return {name: hidden(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return len(value) if key == "partitions" else [hidden(inner, key) for inner in value]
    if isinstance(value, str) and key in ("assignment", "member_assignment"):
        return len(value)
    return value
