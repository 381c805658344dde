"""Conversations about a transactional id whose producer is at the last epochs, as a Kafka 4.1 has been led as well.

Each begins with producer 0 at the last epoch but one. Who speaks is named by the producer's number, in the order in
which ids came to be, and its epoch; None is one that does not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from coordinator.transaction.transaction_metadata import LAST_EPOCH_FOR_CLIENTS, TV_0, TV_2

ANSWERS = Path(__file__).with_name("kafka_last_epochs.json")
FIRST = LAST_EPOCH_FOR_CLIENTS - 1
LAST = LAST_EPOCH_FOR_CLIENTS
RESERVED = LAST_EPOCH_FOR_CLIENTS + 1

Who = tuple[int, int]


class Init(NamedTuple):
    who: Who | None = None


class Add(NamedTuple):
    who: Who
    version: int


class End(NamedTuple):
    who: Who
    version: int
    commit: bool


Step = Init | Add | End

CONVERSATIONS: dict[str, list[Step]] = {
    "who names itself": [
        Init((0, FIRST)),
        Init((0, LAST)),
        Init((0, LAST)),
        Init((0, LAST)),
        Add((1, 0), TV_0),
    ],
    "who does not": [
        Init(),
        Init(),
        Init((0, LAST)),
        Init(),
        Init((0, LAST)),
    ],
    "V2: ended": [
        Init(),
        Add((0, LAST), TV_2),
        End((0, LAST), TV_2, True),
        End((0, LAST), TV_2, True),
        End((0, LAST), TV_2, False),
        End((1, 0), TV_2, True),
        Add((1, 0), TV_2),
        End((0, LAST), TV_2, True),
        End((1, 0), TV_2, True),
    ],
    "V2: ended, then begun by name": [
        Init(),
        Add((0, LAST), TV_2),
        End((0, LAST), TV_2, False),
        Init((0, LAST)),
        Init((0, LAST)),
        End((0, LAST), TV_2, False),
        End((1, 0), TV_2, False),
    ],
    "V2: nothing aborted": [
        Init(),
        End((0, LAST), TV_2, False),
        End((0, LAST), TV_2, False),
        End((0, LAST), TV_2, True),
    ],
    "V2: fenced by itself": [
        Init(),
        Add((0, LAST), TV_2),
        Init((0, LAST)),
        End((0, LAST), TV_2, False),
        End((0, LAST), TV_2, True),
        Init(),
        End((0, LAST), TV_2, False),
    ],
    "V1: ended": [
        Init(),
        Add((0, LAST), TV_0),
        End((0, LAST), TV_0, True),
        End((0, LAST), TV_0, True),
        End((0, LAST), TV_0, False),
        Init((0, LAST)),
        End((0, LAST), TV_0, True),
    ],
    "V1: fenced": [
        Init(),
        Add((0, LAST), TV_0),
        Init(),
        End((0, LAST), TV_0, True),
        End((0, LAST), TV_0, False),
        End((0, RESERVED), TV_0, False),
        Init(),
        Add((0, LAST), TV_0),
        Add((1, 0), TV_0),
    ],
}
