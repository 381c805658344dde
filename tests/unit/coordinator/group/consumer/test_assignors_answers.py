"""The assignors' answers are as good as those of Apache Kafka's classes (assignor_answers.jsonl).

`python -m tools.recorders.assignor_answers` asks Kafka's classes anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.coordinator.group.consumer.assignor_documents import Document, differs

DOCUMENTS = [json.loads(line) for line in (Path(__file__).parent / "assignor_answers.jsonl").read_text().splitlines()]


def _name(document: Document) -> str:
    kind = "homogeneous" if document["homogeneous"] else "heterogeneous"
    return f"{document['assignor']}-{kind}-{len(document['members'])}-members-{len(document['topics'])}-topics"


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_the_answer_is_as_good_as_kafkas(document: Document) -> None:
    assert differs(document) is None
