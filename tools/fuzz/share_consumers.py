"""What members of share groups (KIP-932) say in `fuzz`: heartbeats, fetches in sessions, acknowledgements.

Each member has a connection of its own, as the broker ends a share session with its connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.conformance.group_configs import configure_group
from tests.conformance.runner import Talk, Topic
from tests.conformance.share_members import ShareGroup
from tools.fuzz.symbols import TOPICS, Held, Named
from tools.fuzz.wild import Wild

HEARTBEAT, FETCH, ACKNOWLEDGE = "share_group_heartbeat", "share_fetch", "share_acknowledge"
APIS = (HEARTBEAT, FETCH, ACKNOWLEDGE)
GROUPS = ("q1", "q2")
"""Of the first one the share partitions are initialised before the conversation begins."""
MEMBERS = ("s1", "s1", "s1", "s2", "s2", "s3", "s3")
FETCHED = {"s1": "b", "s2": "b", "s3": "a"}
"""The topic whose first partition each session has; of several partitions Kafka may leave some out of an answer."""
SAYS = {"beat": 6, "subscribe": 3, "before": 1, "leave": 1, "join": 1}
RELEASE = 2
TYPES = {1: 6, RELEASE: 4, 3: 3, 4: 1, 0: 1}
"""Accept, release, reject, renew, gap."""
DESCRIBE = "share_group_describe"
WAIT_MS = 300
CONFIGS = {
    "share.auto.offset.reset": ("earliest", "latest", "none", "by_duration:PT1H"),
    "share.isolation.level": ("read_committed", "read_uncommitted"),
    "share.record.lock.duration.ms": ("30000", "60000", "1", "x"),
    "share.delivery.count.limit": ("2", "5", "1", "11"),
    "share.partition.max.record.locks": ("100", "2000", "99"),
    "share.session.timeout.ms": ("50000", "1"),
    "share.heartbeat.interval.ms": ("5000", "1"),
    "share.renew.acknowledge.enable": ("true", "false"),
}

Acquired = tuple[str, int, int, int]
"""Topic, partition, first and last offset."""


def prepare(t: Talk, topics: Mapping[str, Topic]) -> None:
    """Have the partitions of one group initialised and loaded: a first fetch may come too early for that."""
    configure_group(t, t.prefix + GROUPS[0], {"share_auto_offset_reset": "earliest"})
    group = ShareGroup(t, group=GROUPS[0])
    group.ready(*topics.values())
    for name, topic in topics.items():
        scout = group("scout", topic)
        scout.get(f"{name} is loaded", topic)
        scout.close(f"{name} is released")
        scout.wire.close()


def body(
    draw: Wild, api: str, group: str, held: Mapping[tuple[str, str], Any], drawn: dict[str, Any]
) -> dict[str, Any]:
    """What a member would say next; now and then a field is what was drawn for it. `held` is what one broker gave."""
    member = draw.one(*MEMBERS)
    slot = f"{group}/{member}"
    told = {"group_id": Named(group), "member_id": member}
    if api == HEARTBEAT:
        told |= _heartbeat(draw, slot, ("share epoch", slot) in held)
    else:
        acquired: list[Acquired] = held.get(("acquired", slot), [])
        told |= _in_session(draw, api, member, slot, ("share session", slot) in held, acquired)
    if api == FETCH:
        drawn = drawn | {"max_wait": WAIT_MS, "max_records": 500}  # with less, the answer depends on who is quicker
    return draw.mixed(told, drawn)


def _heartbeat(draw: Wild, slot: str, has_joined: bool) -> dict[str, Any]:
    says = draw.rng.choices(tuple(SAYS), tuple(SAYS.values()))[0] if has_joined else "join"
    names = draw.rng.choices(
        ([Named("a")], [Named("b")], [Named("a"), Named("b")], [], [Named("missing")]), (8, 4, 4, 1, 1)
    )[0]
    match says:
        case "join":
            return {"member_epoch": 0, "subscribed_topic_names": names, "rack_id": draw.one(None, None, "rack")}
        case "subscribe":
            return {"member_epoch": Held("share epoch", slot, 0), "subscribed_topic_names": names, "rack_id": None}
        case "before":
            epoch: Any = Held("share epoch", slot, 0, draw.one(-1, -1, -2, 1))
        case "leave":
            epoch = -1
        case _:
            epoch = Held("share epoch", slot, 0)
    return {"member_epoch": epoch, "subscribed_topic_names": None, "rack_id": None}


def _in_session(
    draw: Wild, api: str, member: str, slot: str, has_session: bool, acquired: list[Acquired]
) -> dict[str, Any]:
    epoch: Any = Held("share session", slot, 0)
    if draw.chance(0.06):
        epoch = draw.one(-1, -1, 0, Held("share session", slot, 0, 1))
    is_renewal = draw.chance(0.05)
    topics: dict[str, dict[int, list[dict[str, Any]]]] = {}
    if api == FETCH and (not has_session or draw.chance(0.1)):
        topics[FETCHED[member]] = {0: []}
    for topic, index, first, last in acquired:
        if has_session and draw.chance(0.6):
            topics.setdefault(topic, {}).setdefault(index, []).extend(_acknowledgements(draw, api, first, last))
    if draw.chance(draw.wild / 4):
        first = draw.rng.randrange(6)
        topics.setdefault("b", {}).setdefault(0, []).extend(
            _acknowledgements(draw, api, first, first + draw.one(0, 1, -1))
        )
    return {
        "share_session_epoch": epoch,
        "min_bytes": draw.one(0, 1, 1),
        "max_bytes": 1 << 20,
        "max_records": draw.one(500, 500, 1, 2, 4),
        "batch_size": draw.one(500, 500, 1, 2),
        "share_acquire_mode": draw.one(0, 0, 1),
        "is_renew_ack": is_renewal,
        "forgotten_topics_data": [
            {"topic_id": Held("topic_id", draw.one("a", "b")), "partitions": [0]} for _ in range(draw.chance(0.05))
        ],
        "topics": [
            {
                "topic_id": Held("topic_id", topic),
                "partitions": [
                    {"partition_index": index, "acknowledgement_batches": batches}
                    for index, batches in sorted(partitions.items())
                ],
            }
            for topic, partitions in topics.items()
        ],
    }


def _acknowledgements(draw: Wild, api: str, first: int, last: int) -> Iterator[dict[str, Any]]:
    """One type for all of the offsets, one for each, or for a part of them.

    A fetch releases nothing: whether it gets what it has released itself, depends on who is quicker.
    """
    kinds = [kind for kind in TYPES if api == ACKNOWLEDGE or kind != RELEASE]
    weights = [TYPES[kind] for kind in kinds]
    if last > first and draw.chance(0.3):
        last = draw.rng.randrange(first, last)
    elif last > first and draw.chance(0.2):
        first += 1
    count = last - first + 1 if draw.chance(0.4) else 1
    types = draw.rng.choices(kinds, weights, k=max(count, 1))
    if draw.chance(draw.wild / 2):
        types = draw.one([], [5], [-1], [1, 1], types * 2)
    yield {"first_offset": first, "last_offset": last, "acknowledge_types": types}


def learn(
    held: dict[tuple[str, str], Any], api: str, slot: str, sent: Mapping[str, Any], answer: Mapping[str, Any]
) -> None:
    """Note in `held` what the member at `slot` was given in the answer to `sent`."""
    is_good = str(answer.get("error_code", "")).startswith("0 ")
    if api == HEARTBEAT:
        if is_good and answer["member_epoch"] > 0:
            held["share epoch", slot] = answer["member_epoch"]
        else:
            held.pop(("share epoch", slot), None)
        return
    if not is_good or sent["share_session_epoch"] == -1:
        for kind in ("share session", "acquired"):
            held.pop((kind, slot), None)
        return
    held["share session", slot] = sent["share_session_epoch"] + 1
    names = {held[kind, name]: name for kind, name in list(held) if kind == "topic_id"}
    ended = set(_ranges(names, sent["topics"], "acknowledgement_batches"))
    kept = [one for one in held.get(("acquired", slot), []) if not any(_overlap(one, other) for other in ended)]
    held["acquired", slot] = kept + list(_ranges(names, answer.get("responses", ()), "acquired_records"))


def _overlap(one: Acquired, other: Acquired) -> bool:
    return one[:2] == other[:2] and one[2] <= other[3] and other[2] <= one[3]


def _ranges(names: Mapping[str, str], topics: Any, key: str) -> Iterator[Acquired]:
    for topic in topics:
        for partition in topic["partitions"]:
            for batch in partition.get(key) or ():
                name = names.get(topic["topic_id"], "")
                if name:
                    yield name, partition["partition_index"], batch["first_offset"], batch["last_offset"]


def hidden(value: Any) -> Any:
    """The answer without the assigned partitions: who gets which goes by hashes of the topics' ids."""
    if isinstance(value, dict):
        return {name: "<some>" if name == "topic_partitions" else hidden(inner) for name, inner in value.items()}
    return [hidden(one) for one in value] if isinstance(value, list) else value


def without_empty(value: Any) -> Any:
    """The answer without the partitions that have nothing to tell: only one of the brokers may name them."""
    if isinstance(value, dict):
        told = {name: without_empty(inner) for name, inner in value.items()}
        return {
            name: [one for one in inner if not _is_empty(one)] if isinstance(inner, list) else inner
            for name, inner in told.items()
        }
    return [without_empty(one) for one in value] if isinstance(value, list) else value


def _is_empty(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if "partitions" in value:
        return not value["partitions"]
    codes = str(value.get("error_code", "")), str(value.get("acknowledge_error_code", ""))
    return "acquired_records" in value and not value["acquired_records"] and codes == ("0 NONE", "0")


def whole_state() -> list[tuple[str, int, dict[str, Any]]]:
    """Requests that tell what a conversation has left behind."""
    offsets, states = [], []
    for name, count in TOPICS.items():
        offsets.append({"topic_name": Named(name), "partitions": list(range(count))})
        partitions = [{"partition": index, "leader_epoch": 0} for index in range(count)]
        states.append({"topic_id": Held("topic_id", name), "partitions": partitions})
    groups = [{"group_id": Named(group), "topics": offsets} for group in GROUPS]
    return [
        (DESCRIBE, 1, {"group_ids": [Named(group) for group in GROUPS]}),
        ("describe_share_group_offsets", 1, {"groups": groups}),
        ("read_share_group_state_summary", 1, {"group_id": Named(GROUPS[0]), "topics": states}),
    ]
