"""Records that pass an expression in jq, such as `.value.amount > 100 and .headers.type == "paid"`.

The expression is a stranger's program. It runs in a process of its own (`filter_process.py`), which is bounded in
memory and time, and ended with the search. The library is an extra.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from broker.console.formats import as_json
from broker.console.registry import Schemas, by_schema, framed_parts
from broker.testkit.control.budget import JSON_WORK, Budget, SpentError
from broker.testkit.control.topic_reader import Found
from odradek.schemas.framing import Framed

PROGRAM = Path(__file__).with_name("filter_process.py")
INSTALL = "pip install '/path/to/odradek[filter]'"
LONGEST = 2_000
"""Characters of an expression."""

START_S = 5.0
"""In which the process has to be there and to have read the expression."""

LEAST_S = 1.0
"""An expression that takes longer for one record is refused."""

LONGEST_LINE = 64 << 10


HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which JSON may have and jq does not read."""


class FilterError(Exception):
    """The expression cannot be used; the text is for the page."""


def is_there() -> bool:
    return importlib.util.find_spec("jq") is not None


class Filter:
    """An expression whose process runs while this is entered. `refused` says what was wrong first, and how often."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._process: asyncio.subprocess.Process | None = None
        self._owed = 0  # answers that were not there in time, and are to be passed over
        self.refused = 0
        self.why = ""

    async def __aenter__(self) -> Filter:
        """Raises FilterError."""
        if len(self._expression) > LONGEST:
            raise FilterError(f"The expression is longer than {LONGEST:,} characters.")
        spec = importlib.util.find_spec("jq")
        if spec is None or spec.origin is None:
            raise FilterError(f"Filters need jq, which is not here: {INSTALL}")
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-X", "utf8", str(PROGRAM), spec.origin),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LONGEST_LINE,
            env={},
        )
        try:
            async with asyncio.timeout(START_S):
                self._send(self._expression)
                answers = [await self._answer() for _ in range(2)]
        except TimeoutError:
            await self._end()
            raise FilterError(f"jq has not read the expression within {START_S:g} seconds.") from None
        except BaseException:
            await self._end()
            raise
        if answers[1] is not True:
            await self._end()
            raise FilterError(f"jq cannot read the expression: {answers[1]}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def passing(self, records: Sequence[bytes], seconds: float) -> list[bool]:
        """Whether each of these records passes: of as many, from the first on, as were looked at in that time.

        Those of earlier calls that were not come first, though nobody waits for them. Raises FilterError if not even
        one record was looked at, although there was time.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        found: list[bool] = []
        came = 0
        try:
            async with asyncio.timeout(seconds):
                for _ in range(self._owed):
                    await self._answer()
                    came += 1
                self._process.stdin.writelines(records)
                self._owed += len(records)
                for _ in records:
                    answer = await self._answer()
                    came += 1
                    if isinstance(answer, str):
                        self.refused += 1
                        self.why = self.why or answer
                    found.append(answer is True)
        except TimeoutError:
            if not came and seconds >= LEAST_S:
                raise FilterError(
                    f"The expression did not come to an end for a record within {seconds:.1f} seconds."
                ) from None
        finally:
            self._owed -= came
        return found

    def _send(self, value: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value).encode() + b"\n")

    async def _answer(self) -> Any:
        """Raises FilterError if the process has ended instead."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise FilterError("The expression needs more memory or time than it may have.")
        return json.loads(line)

    async def _end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await asyncio.shield(self._process.wait())


def told(found: Found, schemas: Schemas, budget: Budget) -> bytes:
    """What the expression is told of a record: a line of JSON. Any thread. Raises SpentError."""
    record = found.record
    key, value = framed_parts(record) if schemas else (None, None)
    return _line(
        {
            "partition": found.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": value_of(record.key, key, schemas, budget),
            "value": value_of(record.value, value, schemas, budget),
            "headers": {_text(name): None if content is None else _text(content) for name, content in record.headers},
        },
        budget,
    )


def value_of(content: bytes | None, part: Framed | None, schemas: Schemas, budget: Budget) -> Any:
    """What bytes are: a value of their schema, an object or a list in JSON, else a text. Raises SpentError."""
    if content is None:
        return None
    budget.spend(JSON_WORK * len(content))
    found = by_schema(part, schemas)
    found = as_json(content) if found is None else found
    return _text(content) if found is None else found


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _line(value: Mapping[str, Any], budget: Budget) -> bytes:
    text = json.dumps(value, ensure_ascii=False, default=str)
    budget.spend(len(text))
    return HALF.sub("\ufffd", text).encode() + b"\n"


def lines(found: Sequence[Found], schemas: Schemas, budget: Budget) -> list[bytes]:
    """Those of as many records, from the first on, as the budget is enough for. Any thread."""
    made: list[bytes] = []
    try:
        made.extend(told(one, schemas, budget) for one in found)
    except SpentError:
        if not made:
            raise
    return made
