"""Records as the rows of a file: lines of JSON as `odradek consume --json` writes them, CSV, Parquet.

Parquet is made in a process of its own, as its library takes a hundred megabytes.
"""

from __future__ import annotations

import asyncio
import base64
import csv
import importlib.util
import io
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from broker.console.formats import as_json, time
from broker.console.registry import Schemas, by_schema, framed_parts
from broker.testkit.control.budget import JSON_WORK, Budget
from broker.testkit.control.topic_reader import Found
from odradek.schemas.framing import Framed

KINDS = {"jsonl": "application/x-ndjson", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
PROGRAM = Path(__file__).with_name("parquet_process.py")
CHUNK = 64 << 10

Write = Callable[[bytes], Awaitable[None]]


def is_parquet_there() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def row_of(topic: str, found: Found, form: str, schemas: Schemas, budget: Budget) -> dict[str, Any]:
    """A record; what is no text is an object with `base64`, and what has a schema is its value. Raises SpentError."""
    record = found.record
    key, value = framed_parts(record) if schemas else (None, None)
    return {
        "topic": topic,
        "partition": found.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _value(record.key, key, form, schemas, budget),
        "value": _value(record.value, value, form, schemas, budget),
        "headers": [
            [name.decode(errors="replace"), _value(content, None, "auto", {}, budget)]
            for name, content in record.headers
        ],
    }


def _value(content: bytes | None, part: Framed | None, form: str, schemas: Schemas, budget: Budget) -> Any:
    if content is None:
        return None
    budget.spend(JSON_WORK * len(content))
    if form == "hex":
        return content.hex()
    if form == "text":
        return content.decode(errors="replace")
    if form == "json" and (found := as_json(content)) is not None:
        return found
    if form == "auto" and (found := by_schema(part, schemas)) is not None:
        return found
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


class Rows:
    """Writes rows with `write`: each as a line of JSON. It is entered for as long as it is used."""

    def __init__(self, write: Write) -> None:
        self.write = write

    async def __aenter__(self) -> Rows:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left to do."""

    def made(self, topic: str, found: Sequence[Found], form: str, schemas: Schemas, budget: Budget) -> bytes:
        """The rows of these records. Any thread. Raises SpentError."""
        rows = (row_of(topic, one, form, schemas, budget) for one in found)
        return "".join(f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in rows).encode(
            errors="backslashreplace"
        )

    async def add(self, rows: bytes) -> None:
        await self.write(rows)


class CsvRows(Rows):
    """As CSV (RFC 4180), with a line of headings."""

    async def __aenter__(self) -> Rows:
        await self.write((",".join(COLUMNS) + "\r\n").encode())
        return self

    def made(self, topic: str, found: Sequence[Found], form: str, schemas: Schemas, budget: Budget) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        for one in found:
            row = flat(row_of(topic, one, form, schemas, budget))
            writer.writerow([*(row[name] for name in COLUMNS[:3]), time(row["timestamp"]), *_texts(row)])
        return text.getvalue().encode(errors="backslashreplace")


def _texts(row: Mapping[str, Any]) -> list[str | None]:
    return [row["key"], row["value"], json.dumps(row["headers"], ensure_ascii=False)]


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same with a text for each key, value and header."""
    headers = [[name, _text(value)] for name, value in row["headers"]]
    return {**row, "key": _text(row["key"]), "value": _text(row["value"]), "headers": headers}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


class ParquetRows(Rows):
    """Gives lines of JSON to a process, and writes what that makes of them."""

    async def __aenter__(self) -> Rows:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(PROGRAM), json.dumps(sys.path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
        self._sending = asyncio.ensure_future(self._send())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises OSError if the file was not finished."""
        try:
            if error is None:
                assert self._process.stdin is not None
                self._process.stdin.close()
                await self._sending
                if await self._process.wait():
                    raise OSError(f"the process that writes Parquet has failed ({self._process.returncode})")
        finally:
            self._sending.cancel()
            if self._process.returncode is None:
                self._process.kill()
                await asyncio.shield(self._process.wait())

    def made(self, topic: str, found: Sequence[Found], form: str, schemas: Schemas, budget: Budget) -> bytes:
        rows = (flat(row_of(topic, one, form, schemas, budget)) for one in found)
        return "".join(f"{json.dumps(row)}\n" for row in rows).encode()

    async def add(self, rows: bytes) -> None:
        assert self._process.stdin is not None
        if self._sending.done():
            await self._sending  # it says why it has ended
            raise OSError("the process that writes Parquet has ended")
        self._process.stdin.write(rows)
        await self._process.stdin.drain()

    async def _send(self) -> None:
        assert self._process.stdout is not None
        while part := await self._process.stdout.read(CHUNK):
            await self.write(part)


def writer_of(kind: str, write: Write) -> Rows:
    return {"jsonl": Rows, "csv": CsvRows, "parquet": ParquetRows}[kind](write)
