"""All targets by name."""

from __future__ import annotations

from tests.fuzzing.files import FILES
from tests.fuzzing.messages import MESSAGES
from tests.fuzzing.records import RECORDS

TARGETS = {target.name: target for target in (*MESSAGES, *RECORDS, *FILES)}
