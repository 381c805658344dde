"""Random groups, and what Apache Kafka's assignors make of them.

python -m tools.recorders.assignor_answers --jars DIR --compare 5000 --seed 7   # with what ours make of them
python -m tools.recorders.assignor_answers --jars DIR                           # writes the unit tests' answers
python -m tools.recorders.assignor_answers --jars DIR --share                   # the same of share groups
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from protocol.uuids import to_text
from tests.client import java_tools
from tests.unit.coordinator.group.consumer.assignor_documents import Document, differs
from tests.unit.coordinator.group.share import assignor_documents as shared
from tools.recorders.kafkas_assignors import compare, kafkas_assignor, kept

Counts = dict[tuple[object, ...], int]
"""By assignor, whether the group is homogeneous, and whether Kafka's assignor fails."""

ANSWERS = java_tools.ROOT / "tests" / "unit" / "coordinator" / "group" / "consumer" / "assignor_answers.jsonl"
SHARE_ANSWERS = ANSWERS.parents[1] / "share" / "assignor_answers.jsonl"
BOTH = (False, True)
KEPT: Counts = {
    **{("uniform", alike, False): 20 for alike in BOTH},
    **{("range", alike, False): 8 for alike in BOTH},
    **{(assignor, alike, True): 1 for assignor in ("uniform", "range") for alike in BOTH},
}
"""How many documents the unit tests have."""
KEPT_OF_SHARE: Counts = {
    ("simple", False, False): 15,
    ("simple", True, False): 25,
    **{("simple", alike, True): 1 for alike in BOTH},
}
UNKNOWN = ["gone-1", "gone-2", "gone-3"]


class Groups:
    """Makes groups; each is then assigned anew some times over, with members and topics that come and go."""

    def __init__(self, seed: int, assignors: Sequence[str]) -> None:
        self._random = random.Random(seed)
        self._assignors = assignors

    def first(self) -> Document:
        rng = self._random
        names = [f"topic-{rng.randrange(1000)}" for _ in range(rng.choice([0, *range(1, 7), *range(1, 7), 12, 13, 24]))]
        most = rng.choice([3, 12, 12, 60])
        document: Document = {"topics": {name: [self._id(), rng.randint(0, most)] for name in names}}
        if rng.random() < 0.02 and names:
            document["topics"][names[0]][1] = -1
        one = self._subscription(document)
        alike = rng.random() < 0.5
        document["members"] = [self._member(document, one if alike else None) for _ in range(rng.randint(1, 20))]
        self._own_at_random(document)
        return {**self._finished(document), "assignor": rng.choice(self._assignors)}

    def next(self, document: Document, answer: Document) -> Document:
        """The group with Java's answer as its target, and a few changes."""
        rng = self._random
        members = [{**member, "assigned": answer[member["id"]]} for member in document["members"]]
        following = {**document, "topics": {name: [*topic] for name, topic in document["topics"].items()}}
        alike = members[0]["topics"] if document["homogeneous"] else None
        following["members"] = [member for member in members if rng.random() < 0.8] or members
        for _ in range(rng.choice([0, 0, 1, 3])):
            following["members"].append(self._member(document, alike))
        for topic in following["topics"].values():
            topic[1] += rng.choice([0, 0, 0, 2]) if topic[1] >= 0 else 0
        if rng.random() < 0.3:
            changed = self._subscription(document)
            for member in following["members"] if alike else [rng.choice(following["members"])]:
                member["topics"] = changed
        if rng.random() < 0.1 and members[0] not in following["members"]:
            following["departed"] = members[0]["assigned"]
        return self._finished(following)

    def other_names(self, document: Document) -> Iterator[Mapping[str, str]]:
        """Of members and topics; the range assignor goes by the order of names."""
        while document["assignor"] != "range":
            members = {member["id"]: f"m{self._random.randrange(10**9)}" for member in document["members"]}
            yield {**members, **{topic: self._id() for topic, _ in document["topics"].values()}}

    def kind(self, document: Document) -> tuple[object, ...]:
        return document["assignor"], document["homogeneous"]

    def _finished(self, document: Document) -> Document:
        subscriptions = {frozenset(member["topics"]) for member in document["members"]}
        return {"departed": [], **document, "homogeneous": len(subscriptions) == 1}

    def _id(self) -> str:
        return to_text(UUID(int=self._random.getrandbits(128)))

    def _subscription(self, document: Document) -> list[str]:
        rng = self._random
        names = [*document["topics"], *(name for name in UNKNOWN if rng.random() < 0.1)]
        return rng.sample(names, rng.choice([len(names), rng.randint(0, len(names))]))

    def _member(self, document: Document, topics: Sequence[str] | None) -> Document:
        rng = self._random
        form = rng.choice(["m{}", "consumer-{}-\u00e9\U0001f600", "{}"])
        return {
            "id": form.format(rng.randrange(10**6) if form != "{}" else self._id()),
            "instance": f"i{rng.randrange(10**5)}\uffff" if rng.random() < 0.3 else None,
            "rack": rng.choice([None, "r0", "r1", "r2"]),
            "topics": self._subscription(document) if topics is None else rng.sample(topics, len(topics)),
            "assigned": [],
        }

    def _own_at_random(self, document: Document) -> None:
        """None, some or all partitions, subscribed to or not, evenly or not; seldom one that two members have."""
        rng = self._random
        share, favour = rng.choice([0, 0, 0.5, 1]), rng.choice([0, 0.5])
        twice = rng.random() < 0.03
        topics = [*document["topics"].values(), [self._id(), 4]]
        owned: dict[str, dict[str, list[int]]] = {member["id"]: {} for member in document["members"]}
        for topic, count in rng.sample(topics, len(topics)):
            for partition in range(count):
                if rng.random() < share:
                    some = [next(iter(owned))] if rng.random() < favour else rng.sample([*owned], 1)
                    for owner in [*some, rng.choice([*owned])] if twice else some:
                        owned[owner].setdefault(topic, []).append(partition)
        for member in document["members"]:
            member["assigned"] = [[topic, sorted({*found})] for topic, found in owned[member["id"]].items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, default=java_tools.JARS)
    parser.add_argument("--compare", type=int, help="so many groups with our answers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", action="store_true", help="share groups")
    arguments = parser.parse_args()
    groups = Groups(arguments.seed, ["simple"] if arguments.share else ["uniform", "uniform", "range"])
    path, counts, judge = ANSWERS, KEPT, differs
    if arguments.share:
        path, counts, judge = SHARE_ANSWERS, KEPT_OF_SHARE, shared.differs
    with kafkas_assignor(arguments.jars, "Assignors") as kafka:
        if arguments.compare:
            return compare(kafka, groups, arguments.compare, judge)
        path.write_text("".join(kept(kafka, groups, counts, judge)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
