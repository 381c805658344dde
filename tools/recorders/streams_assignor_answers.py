"""Random streams groups, and what Apache Kafka's StickyTaskAssignor makes of them.

python -m tools.recorders.streams_assignor_answers --jars DIR --compare 1000 --seed 7   # with what ours makes of them
python -m tools.recorders.streams_assignor_answers --jars DIR                           # writes the unit test's answers
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.client import java_tools
from tests.unit.coordinator.group.streams.assignor_documents import Document, differs
from tools.recorders.kafkas_assignors import compare, kafkas_assignor, kept

ANSWERS = java_tools.ROOT / "tests" / "unit" / "coordinator" / "group" / "streams" / "assignor_answers.jsonl"
KEPT: dict[tuple[object, ...], int] = {(standbys, only, False): 8 for standbys in range(3) for only in (False, True)}
"""How many documents the unit tests have, by standby replicas and whether Kafka has only one answer."""
ZONES = ["a", "b", "c"]


class StreamsGroups:
    """Makes groups; each is then assigned anew some times over, with members, processes and tasks that come and go."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def first(self) -> Document:
        rng = self._random
        names = [str(number) for number in range(rng.choice([1, 1, 2, 3, 4]))]
        document: Document = {
            "standbys": rng.choice([0, 1, 1, 2]),
            "tags": rng.choice([[], ["zone"]]),
            "subtopologies": {name: [rng.randint(1, 8), rng.random() < 0.7] for name in names},
        }
        document["members"] = [
            self._member(process)
            for process in map(self._process, range(rng.choice([1, 2, 3, 4, 5])))
            for _ in range(rng.choice([1, 1, 1, 2, 3]))
        ]
        self._give_offsets(document)
        return document

    def next(self, document: Document, answer: Document) -> Document:
        """The group with this answer as its target, and a few changes."""
        rng = self._random
        members = [{**member, **answer[member["id"]]} for member in document["members"]]
        here = [member for member in members if rng.random() < 0.8] or members
        if rng.random() < 0.2:
            gone = rng.choice(here)["process"]
            here = [member for member in here if member["process"] != gone] or here
        processes = [*{member["process"] for member in here}, self._process(rng.randrange(100))]
        processes.sort()
        here += [self._member(rng.choice(processes)) for _ in range(rng.choice([0, 0, 1, 2]))]
        following = {
            **document,
            "members": here,
            "subtopologies": {
                name: [count + rng.choice([0, 0, 0, 2]), stateful]
                for name, (count, stateful) in document["subtopologies"].items()
            },
        }
        if rng.random() < 0.2:
            following["standbys"] = rng.choice([0, 1, 2])
        self._give_offsets(following)
        return following

    def other_names(self, document: Document) -> Iterator[Mapping[str, str]]:
        """Of members and processes."""
        names = sorted({member[key] for member in document["members"] for key in ("id", "process")})
        while True:
            yield {name: f"n{self._random.randrange(10**9)}" for name in names}

    def kind(self, document: Document) -> tuple[object, ...]:
        return document["standbys"], document["is_only"]

    def _process(self, number: int) -> str:
        return f"process-{number}-{self._random.randrange(10**6)}"

    def _member(self, process: str) -> Document:
        rng = self._random
        return {
            "id": f"member-{rng.randrange(10**6)}",
            "process": process,
            "tags": {"zone": rng.choice(ZONES)},
            "active": {},
            "standby": {},
            "warmup": {},
            "offsets": [],
        }

    def _give_offsets(self, document: Document) -> None:
        """Members have files of some tasks with state, theirs or not, and seldom a warm-up of one."""
        rng = self._random
        sizes = {name: count for name, (count, is_stateful) in document["subtopologies"].items() if is_stateful}
        tasks = [(name, index) for name, count in sizes.items() for index in range(count)]
        chance = rng.choice([0, 0, 0.2, 0.6])
        for member in document["members"]:
            member["offsets"] = [[*task, rng.randrange(5)] for task in tasks if rng.random() < chance]
            if tasks and rng.random() < 0.1:
                name, index = rng.choice(tasks)
                member["warmup"] = {name: [index]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, default=java_tools.JARS)
    parser.add_argument("--compare", type=int, help="so many groups with our answers")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    groups = StreamsGroups(arguments.seed)
    with kafkas_assignor(arguments.jars, "StreamsAssignor") as kafka:
        if arguments.compare:
            return compare(kafka, groups, arguments.compare, differs)
        ANSWERS.write_text("".join(kept(kafka, groups, KEPT, differs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
