"""Random records of the metadata log, and the images that Apache Kafka's MetadataDelta makes of them.

python -m tools.recorders.image_answers --jars DIR --compare 20000 --seed 7   # with what ours makes of them
python -m tools.recorders.image_answers --jars DIR                            # writes the unit test's answers
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from metadata.delta import MetadataDelta
from metadata.image import EMPTY, MetadataImage
from protocol.metadata.serde import encode_record, lowest_version
from tests.client import java_tools
from tests.unit.metadata.kafka_images import State, decoded, our_state, state_of
from tools.recorders.metadata_records import RandomRecords

ANSWERS = java_tools.ROOT / "tests" / "unit" / "metadata" / "image_answers.jsonl"
KEPT = 800
"""How many records the unit test has."""
IN_A_LOG = 100
"""How many records are replayed before a new log begins."""
_ALONE = {
    "RemoveTopicRecord": "configs",
    "UserScramCredentialRecord": "scram",
    "RemoveUserScramCredentialRecord": "scram",
}
"""Records that follow no others of a subject in a delta, since Kafka's image is then not what its controller has:
the delta keeps a removed topic's configurations that it was itself told of, and may lose the credential of one user
with that of another."""


class KafkaImages:
    """Kafka's classes in a process, and the image that they have made."""

    def __init__(self, jars: Path, classes: str) -> None:
        source = Path(__file__).parent / "KafkaImages.java"
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, str(source)], check=True, timeout=60)
        command = ["java", *java_tools.JVM_OPTIONS, "-cp", f"{classes}:{jars}/*", source.stem]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout

    def begin(self) -> None:
        self._in.write("new\n")

    def replay(self, values: list[str]) -> list[str] | str:
        """The records of the image after one delta, or what Kafka says is wrong with it."""
        self._in.write(" ".join(values) + "\n")
        self._in.flush()
        answer = self._out.readline().strip()
        return answer if answer.startswith("!") else answer.split()

    def close(self) -> None:
        self._in.close()
        self._process.wait(20)


def _value(record: Any) -> str:
    return b64encode(encode_record(record, lowest_version(record))).decode()


def answered(kafka: KafkaImages, rng: random.Random, most: int) -> Iterator[tuple[dict[str, Any], State, State]]:
    """Deltas with what Kafka made of each, and both images after it."""
    done = 0
    while done < most:
        kafka.begin()
        image, before, in_log = EMPTY, State(), 0
        while in_log < IN_A_LOG:
            records, image = _delta(image, rng)
            values = [_value(record) for record in records]
            answer = kafka.replay(values)
            if isinstance(answer, str):
                raise ValueError(f"{answer}\n{records}")
            after = state_of(decoded(answer))
            line = {
                "new": in_log == 0,
                "records": values,
                "put": [value for key, value in zip(after, answer, strict=True) if after[key] != before.get(key)],
                "gone": [_value(before[key]) for key in before if key not in after],
            }
            yield line, after, our_state(image)
            before, in_log = after, in_log + len(records)
        done += in_log


def _delta(image: MetadataImage, rng: random.Random) -> tuple[list[Any], MetadataImage]:
    """The records of one delta, each of which fits what was there after those before it; and our image after them."""
    delta, records, made = MetadataDelta(image), [], image
    for _ in range(rng.choice([1, 1, 2, 5, 12])):
        record = RandomRecords(made, rng).next()
        subject = _ALONE.get(record.__class__.__name__)
        if subject is not None and delta.touched(subject):
            break
        records.append(record)
        step = MetadataDelta(made)
        step.replay(record)
        made = step.apply(made.offset + 1, 1, 0)
        delta.replay(record)
    return records, delta.apply(image.offset + len(records), 1, 0)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jars", type=Path, default=java_tools.JARS)
    arguments.add_argument("--compare", type=int, metavar="RECORDS")
    arguments.add_argument("--seed", type=int, default=46)
    given = arguments.parse_args()
    kinds: Counter[str] = Counter()
    wrong, is_wrong, lines = 0, False, []
    with tempfile.TemporaryDirectory() as classes:
        kafka = KafkaImages(given.jars, classes)
        for line, theirs, ours in answered(kafka, random.Random(given.seed), given.compare or KEPT):
            kinds.update(record.__class__.__name__ for record in decoded(line["records"]))
            lines.append(json.dumps(line, separators=(",", ":")) + "\n")
            was_wrong = is_wrong and not line["new"]
            is_wrong = ours != theirs
            wrong += is_wrong
            if is_wrong and not was_wrong:
                sys.stdout.write(_difference(line, theirs, ours))
        kafka.close()
    if given.compare is None and not wrong:
        ANSWERS.write_text("".join(lines))
    sys.stdout.write(f"{kinds.total()} records in {len(lines)} deltas, {wrong} other images; {dict(kinds)}\n")
    return 1 if wrong else 0


def _difference(line: dict[str, Any], theirs: State, ours: State) -> str:
    keys = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
    found = [f"  Kafka's {theirs.get(key)}\n  ours    {ours.get(key)}\n" for key in keys]
    return f"after {decoded(line['records'])}:\n{''.join(found)}"


if __name__ == "__main__":
    sys.exit(main())
