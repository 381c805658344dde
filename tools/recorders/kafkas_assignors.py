"""Asks Apache Kafka's assignors: random groups in sequences, compared with our answers, or kept for the unit tests.

Where members have equal claims, Kafka's answer depends on the order of its hash maps, and so on names. Thus ours is
held against the answers to the same group under other names, too: it must be as good as one of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from tests.client import java_tools

Document = dict[str, Any]
Differs = Callable[[Document], str | None]
"""What of our answer is not as good as Kafka's; None if nothing is."""

PROGRAMS = Path(java_tools.__file__).parent / "java"
KEPT_SIZE = 4_000
"""The longest line that is kept for the unit tests."""
ROUNDS = 4
"""How often a group is assigned before there is another one."""
NAMES_FOR_ONLY = 40
"""Under how many other names Kafka's answer must be the same to be its only one."""
NAMES_FOR_AS_GOOD = 2_000
"""Under how many other names an answer of Kafka's is looked for that is no better than ours."""


class RandomGroups(Protocol):
    """Makes groups as documents."""

    def first(self) -> Document: ...

    def next(self, document: Document, answer: Document) -> Document:
        """The same group with this answer as its target, and a few changes."""

    def other_names(self, document: Document) -> Iterator[Mapping[str, str]]:
        """Ever other names for what the order of hash maps depends on; none where the answer does not depend on it."""

    def kind(self, document: Document) -> tuple[object, ...]:
        """What the documents are counted by."""


class KafkasAssignor:
    """A process that answers documents."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def answer(self, document: Document) -> Document:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(document).encode() + b"\n")
        self._process.stdin.flush()
        answer: Document = json.loads(self._process.stdout.readline())
        return answer

    def other_answers(self, groups: RandomGroups, document: Document, most: int) -> Iterator[Document]:
        """The answers to the same group under other names, with its own names again."""
        for names in islice(groups.other_names(document), most):
            answer = self.answer(_renamed({**document, "answer": None}, names))
            yield _renamed(answer, {new: old for old, new in names.items()})


@contextmanager
def kafkas_assignor(jars: Path, program: str) -> Iterator[KafkasAssignor]:
    """A Java program of `PROGRAMS`, for as long as it is needed."""
    source = PROGRAMS / f"{program}.java"
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, str(source)], check=True, timeout=60)
        command = ["java", *java_tools.JVM_OPTIONS, "-cp", f"{classes}:{jars}/*", program]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            yield KafkasAssignor(process)


def sequences(kafka: KafkasAssignor, groups: RandomGroups, count: int) -> Iterator[Document]:
    """Groups with Kafka's answers: each group is assigned some times in a row.

    `is_only` says whether Kafka has the same answer under other names, too.
    """
    for _ in range(count // ROUNDS):
        document = groups.first()
        for round_ in range(ROUNDS):
            answer = kafka.answer(document)
            others = kafka.other_answers(groups, document, NAMES_FOR_ONLY)
            yield {**document, "answer": answer, "is_only": all(_is_same(answer, other) for other in others)}
            if "error" in answer:
                document = groups.first()
            elif round_ < ROUNDS - 1:
                document = groups.next(document, answer)


def compare(kafka: KafkasAssignor, groups: RandomGroups, count: int, differs: Differs) -> int:
    """Tell on how many groups our answer is not as good as any of Kafka's, and show the first of them."""
    done, by_names, wrong, kinds = 0, 0, [], Counter[tuple[object, ...]]()
    for document in sequences(kafka, groups, count):
        done += 1
        kinds[*groups.kind(document), "error" in document["answer"]] += 1
        if not differs(document):
            continue
        if _as_good(kafka, groups, document, differs) is None:
            wrong.append(document)
        else:
            by_names += 1
    for document in wrong[:1]:
        sys.stdout.write(f"{json.dumps(document)}\n{differs(document)}\n")
    sys.stdout.write(
        f"{done} groups, {len(wrong)} differences; as good only as Kafka's answer under other names: {by_names}; "
        f"by kind, and whether Kafka failed: {dict(kinds)}\n"
    )
    return 1 if wrong else 0


def kept(
    kafka: KafkasAssignor, groups: RandomGroups, counts: Mapping[tuple[object, ...], int], differs: Differs
) -> Iterator[str]:
    """Some of each kind, as lines, and none that are long. Raises ValueError for one that is a difference."""
    wanted = dict(counts)
    for document in sequences(kafka, groups, 100_000):
        kind = *groups.kind(document), "error" in document["answer"]
        if not wanted.get(kind):
            continue
        found = document if differs(document) is None else _as_good(kafka, groups, document, differs)
        if found is None:
            raise ValueError(f"our answer is not as good: {differs(document)}; {json.dumps(document)}")
        line = json.dumps(found, separators=(",", ":")) + "\n"
        if len(line) < KEPT_SIZE:
            wanted[kind] -= 1
            yield line
        if not any(wanted.values()):
            return


def _as_good(kafka: KafkasAssignor, groups: RandomGroups, document: Document, differs: Differs) -> Document | None:
    """The document with an answer of Kafka's under other names that ours is as good as; None if there is none."""
    answers = kafka.other_answers(groups, document, NAMES_FOR_AS_GOOD)
    found = ({**document, "answer": answer} for answer in answers)
    return next((other for other in found if differs(other) is None), None)


def _is_same(answer: Any, other: Any) -> bool:
    """Whether both are the same but for the order of lists."""
    if isinstance(answer, list) and isinstance(other, list):
        return len(answer) == len(other) and all(any(_is_same(one, two) for two in other) for one in answer)
    if isinstance(answer, dict) and isinstance(other, dict):
        return answer.keys() == other.keys() and all(_is_same(answer[key], other[key]) for key in answer)
    return bool(answer == other)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The same with other names, wherever they stand."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    if isinstance(value, dict):
        return {names.get(key, key): _renamed(one, names) for key, one in value.items()}
    return value
