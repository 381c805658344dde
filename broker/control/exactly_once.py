"""Whether each record of one topic led to exactly one of another: looked at in the broker, for HTTP too."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.control.record_json import as_json
from broker.control.record_reads import DEFAULT_TIMEOUT_S, MOST_RECORDS, TIMEOUT, reader_of, until
from broker.control.topic_reader import TopicReader
from broker.node import Node


async def _require(node: Node, values: Values) -> None:
    """Wait until the sink is right. Raises ControlError if it is not in time, or can never be."""
    from odradek import assertions

    try:
        identify = assertions.identity(values.get("key", "key"))
    except ValueError as error:
        raise ControlError(str(error), parameter="key") from error
    source, sink = (_Topic(node, values[name], name) for name in ("source", "sink"))
    problems: list[str] = []

    async def is_right() -> bool:
        await sink.read()  # first: what it was made of is then in the source
        await source.read()
        compare = partial(_compare, source.records, sink.records, identify)
        found, may_mend = await node.replicas.logs.services.workers.call(compare)
        problems[:] = found
        if found and not may_mend:
            raise _wrong(values, found)
        return not found

    if not await until(sink.reader, is_right, values.get("timeout", DEFAULT_TIMEOUT_S)):
        raise _wrong(values, problems)


MOST_BYTES = 256 << 20
"""Of one topic, whose records are all kept to be compared."""


class _Topic:
    """A topic that is read on."""

    def __init__(self, node: Node, name: str, parameter: str) -> None:
        try:
            self.reader: TopicReader = reader_of(node, {"topic": name})
        except ControlError as error:
            raise ControlError(str(error), parameter=parameter, status=error.status) from error
        self.name = name
        self.records: list[dict[str, Any]] = []
        self._bytes = 0

    async def read(self) -> None:
        while found := await self.reader.read_on(MOST_RECORDS):
            self._bytes += sum(one.size for one in found)
            if self._bytes > MOST_BYTES:
                raise ControlError(f"{self.name} has more than {MOST_BYTES} bytes: compare smaller topics", status=413)
            self.records += [as_json(self.name, *record) for record in found]


def _compare(
    source: list[dict[str, Any]], sink: list[dict[str, Any]], identify: Callable[[Any], Hashable]
) -> tuple[list[str], bool]:
    from odradek import assertions
    from odradek.record import Record

    try:
        return assertions.violations(map(Record.of, source), map(Record.of, sink), identify)
    except ValueError as error:
        raise ControlError(str(error), parameter="key") from error


def _wrong(values: Values, problems: list[str]) -> ControlError:
    from odradek import assertions

    return ControlError(assertions.summary(values["source"], values["sink"], problems), status=408)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/exactly-once",
        "Wait until each record of a topic led to exactly one committed record of another; status 408 if it did not.",
        _require,
        (
            Parameter("source", Kind.STRING, "the topic that was read", required=True),
            Parameter("sink", Kind.STRING, "the topic that was written", required=True),
            Parameter(
                "key", Kind.STRING, "what belongs together: key (if not given), value, value.FIELD or headers.NAME"
            ),
            TIMEOUT,
        ),
    ),
)
