"""Random groups, and what Apache Kafka's assignors make of them.

python -m tools.recorders.assignor_answers --jars DIR --compare 5000 --seed 7   # with what ours make of them
python -m tools.recorders.assignor_answers --jars DIR                           # writes the unit tests' answers
python -m tools.recorders.assignor_answers --jars DIR --share                   # the same of share groups
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self
from uuid import UUID

from protocol.uuids import to_text
from tests.client import java_tools
from tests.unit.coordinator.group.consumer.assignor_documents import Document, differs
from tests.unit.coordinator.group.share import assignor_documents as shared

SCRIPT = Path(java_tools.__file__).parent / "java" / "Assignors.java"
ANSWERS = java_tools.ROOT / "tests" / "unit" / "coordinator" / "group" / "consumer" / "assignor_answers.jsonl"
KEPT = {("uniform", False): 20, ("uniform", True): 20, ("range", False): 8, ("range", True): 8}
"""How many documents the unit tests have, by assignor and whether the group is homogeneous; one more each fails."""
SHARE_ANSWERS = ANSWERS.parents[1] / "share" / "assignor_answers.jsonl"
KEPT_OF_SHARE = {("simple", False): 15, ("simple", True): 25}
KEPT_SIZE = 4_000
ROUNDS = 4
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
        return self._finished(document)

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

    def assignor(self) -> str:
        return self._random.choice(self._assignors)

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


class Java:
    """A process that answers documents."""

    def __init__(self, jars: Path, classes: str) -> None:
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, str(SCRIPT)], check=True, timeout=60)
        command = ["java", *java_tools.JVM_OPTIONS, "-cp", f"{classes}:{jars}/*", SCRIPT.stem]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answer(self, document: Document) -> Document:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(document).encode() + b"\n")
        self._process.stdin.flush()
        answer: Document = json.loads(self._process.stdout.readline())
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def documents(java: Java, groups: Groups, count: int) -> Iterator[Document]:
    """Groups with Java's answers: each group some times in a row, mostly by one assignor."""
    for _ in range(count // ROUNDS):
        document = {**groups.first(), "assignor": groups.assignor()}
        for round_ in range(ROUNDS):
            answer = java.answer(document)
            yield {**document, "answer": answer}
            if "error" in answer:
                document = {**groups.first(), "assignor": groups.assignor()}
            elif round_ < ROUNDS - 1:
                document = groups.next(document, answer)


def compare(found: Iterator[Document], differs: Callable[[Document], str | None]) -> int:
    """Tell on how many documents our answer is not as good, and show the first of them."""
    count, wrong, kinds = 0, [], Counter[tuple[str, bool, bool]]()
    for document in found:
        count += 1
        kinds[document["assignor"], document["homogeneous"], "error" in document["answer"]] += 1
        if differs(document):
            wrong.append(document)
    for document in wrong[:1]:
        sys.stdout.write(f"{json.dumps(document)}\n{differs(document)}\n")
    sys.stdout.write(f"{count} groups, {len(wrong)} differences; (assignor, homogeneous, failed): {dict(kinds)}\n")
    return 1 if wrong else 0


def kept(found: Iterator[Document], counts: Mapping[tuple[str, bool], int]) -> list[str]:
    """Some of each kind, as lines, and none that are long."""
    wanted = {**{(*kind, False): count for kind, count in counts.items()}, **{(*kind, True): 1 for kind in counts}}
    lines: list[str] = []
    while any(wanted.values()):
        document = next(found)
        kind = document["assignor"], document["homogeneous"], "error" in document["answer"]
        line = json.dumps(document, separators=(",", ":")) + "\n"
        if wanted[kind] and len(line) < KEPT_SIZE:
            wanted[kind] -= 1
            lines.append(line)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, default=java_tools.JARS)
    parser.add_argument("--compare", type=int, help="so many groups with our answers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", action="store_true", help="share groups")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as classes, Java(arguments.jars, classes) as java:
        groups = Groups(arguments.seed, ["simple"] if arguments.share else ["uniform", "uniform", "range"])
        if arguments.compare:
            return compare(documents(java, groups, arguments.compare), shared.differs if arguments.share else differs)
        lines = kept(documents(java, groups, 100_000), KEPT_OF_SHARE if arguments.share else KEPT)
    (SHARE_ANSWERS if arguments.share else ANSWERS).write_text("".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
