"""A topic in a test's hands: write, read, wait for and expect records, without a client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from odradek.control import Control, Named, WaitTimeoutError, in_thread
from odradek.record import (
    Content,
    HeadersGiven,
    Record,
    Timestamp,
    Value,
    content_as_json,
    headers_as_json,
    record_as_json,
)
from odradek.registry import Given, Registry
from odradek.schemas.codecs import plain

FIELDS = ("value", "key", "headers", "partition", "timestamp", "schema", "key_schema")
LATEST = "latest"
LAST_SHOWN = 5
DEFAULT_TIMEOUT = 5.0

From = int | Mapping[int, int]
"""The first offset to read: the same for all partitions, or by partition."""


class Topic(Named):
    """A topic of a broker; `Broker.topic` makes it. It is a str too, its name, and clients take it as that."""

    _KIND = "topics"
    _PARAMETER = "name"

    def __init__(self, control: Callable[[], Control], name: str, partitions: int) -> None:
        super().__init__(control, name)
        self.name = str(self)
        self.partitions = partitions

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, partitions={self.partitions})"

    # -- writing

    def produce(
        self,
        value: Value | object,
        *,
        key: Content | object = None,
        headers: HeadersGiven | None = None,
        partition: int | None = None,
        timestamp: Timestamp | None = None,
        schema: int | Given | None = None,
        key_schema: int | Given | None = None,
        message: str | None = None,
    ) -> Record:
        """Write a record as a producer with acks=all, and return it with its partition and offset.

        A `dict` becomes JSON, a `str` UTF-8. Without `partition` the key decides, as with Java's producer; without a
        key the shortest partition gets the record. `timestamp` is milliseconds since 1970 or a datetime, now if None.

        With a `schema` the value, whatever the schema has, is encoded as Confluent's serializers do: an id that
        `registry.register` returned, "latest" (the latest version of the topic's subject), or a schema, which is
        registered. `key_schema` is the same for the key. `message` is Protobuf's, the first of the schema if None.
        """
        named, of_key = self._schema(schema, message), self._schema(key_schema, None, key=True)
        return self._produce([record_as_json(value, key, headers, partition, timestamp, named, of_key)])[0]

    def produce_many(
        self,
        records: Iterable[Value | tuple[Content, Value] | Record],
        *,
        headers: HeadersGiven | None = None,
        partition: int | None = None,
        timestamp: Timestamp | None = None,
        schema: int | Given | None = None,
        key_schema: int | Given | None = None,
        message: str | None = None,
    ) -> list[Record]:
        """Write several records in their order, and return them.

        Each is a value, a pair (key, value), a `Record`, or a dict of `produce`'s parameters (`{"value": ..., "key":
        ...}`). `headers`, `partition`, `timestamp` and the schemas are for those that have none of their own.
        """
        if isinstance(records, str | bytes | Mapping):
            raise TypeError(f"records = {records!r}: expected several values; produce() writes one")
        shared = {"headers": headers, "partition": partition, "timestamp": timestamp}
        schemas = {"schema": self._schema(schema, message), "key_schema": self._schema(key_schema, None, key=True)}
        given = []
        for at, record in enumerate(records):
            fields = {**shared, **schemas, **_fields(record, at)}
            for name, shared_one in schemas.items():
                if fields[name] is not shared_one:
                    fields[name] = self._schema(fields[name], message, key=name == "key_schema")
            given.append(record_as_json(**fields))
        return self._produce(given) if given else []

    def _schema(self, given: int | Given | None, message: str | None, *, key: bool = False) -> dict[str, Any] | None:
        """A schema as the control interface takes it; one that is given whole is registered."""
        if given is None:
            return None
        if isinstance(given, bool):
            raise TypeError(f"schema = {given!r}: expected an id, 'latest', or a schema")
        of_message = {} if message is None else {"message": message}
        if given == LATEST:
            return of_message
        if not isinstance(given, int):
            given = Registry(self._control).register(self.name, given, key=key)
        return {"id": int(given), **of_message}

    def _produce(self, records: list[dict[str, Any]]) -> list[Record]:
        answer = self._control().post(f"{self._path}/records", records=records)
        return [Record.of(record) for record in answer["records"]]

    # -- reading

    def records(
        self, committed: bool = True, *, partition: int | None = None, from_: From | None = None
    ) -> list[Record]:
        """The records that are there now, by partition and offset.

        With `committed` as a read_committed consumer gets them: without those of open and aborted transactions.
        """
        found: list[Record] = []
        while True:
            read, from_, more = self._read(committed, partition, from_, 0)
            found += read
            if not more:
                return sorted(found, key=lambda record: (record.partition, record.offset))

    def wait(
        self,
        count: int = 1,
        where: Callable[[Record], object] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        committed: bool = True,
        partition: int | None = None,
        from_: From | None = None,
    ) -> list[Record]:
        """Wait until the topic has at least `count` records for which `where(record)` is true, and return them.

        Records that are there already count, from the start of the topic or `from_`. `timeout` is seconds; then
        WaitTimeoutError is raised.
        """
        if where is not None:
            if not callable(where):
                raise TypeError(f"where = {where!r}: expected a function of a Record")
            return self._wait_where(count, where, timeout, committed, partition, from_)
        answer = self._control().post(
            f"{self._path}/wait",
            count=count,
            timeout=timeout,
            committed=committed,
            partition=partition,
            **_from_parameter(from_),
        )
        return [Record.of(record) for record in answer["records"]]

    wait_async = in_thread(wait)

    def expect(
        self,
        value: Value | object = ...,
        *,
        key: Content | Mapping[str, Any] | object = ...,
        headers: HeadersGiven | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        committed: bool = True,
        partition: int | None = None,
        from_: From | None = None,
    ) -> Record:
        """Wait for a record like this, and return it. Otherwise WaitTimeoutError shows the nearest, field by field.

        A `dict` is what a value has at least that is JSON, or that is decoded by its schema; `bytes` and `str` are the
        whole value, None is a tombstone. What is not given may be anything. A key may be a dict too. `headers` are
        those that have to be there.
        """
        answer = self._control().post(
            f"{self._path}/wait",
            **_expected_value(value),
            **({} if key is ... else _expected_key(key)),
            headers=None if headers is None else {header.pop("key"): header for header in headers_as_json(headers)},
            timeout=timeout,
            committed=committed,
            partition=partition,
            **_from_parameter(from_),
        )
        return Record.of(answer["records"][0])

    expect_async = in_thread(expect)

    # -- offsets, and the end

    def end_offsets(self, committed: bool = False) -> dict[int, int]:
        """By partition: the offset after the last record; with `committed`, the last stable offset."""
        return self._offsets("stable" if committed else "end")

    def start_offsets(self) -> dict[int, int]:
        """By partition: the first offset that can be read."""
        return self._offsets("start")

    def _offsets(self, which: str) -> dict[int, int]:
        partitions = self._control().get(f"{self._path}/offsets")["partitions"]
        return {int(index): offsets[which] for index, offsets in partitions.items()}

    def truncate(self, *, partition: int | None = None, before: int | None = None) -> None:
        """Delete all records, or those before an offset; new ones get the offsets that follow (KIP-107)."""
        self._control().post(f"{self._path}/truncate", partition=partition, before=before)

    def delete(self) -> None:
        """Delete the topic."""
        self._control().delete(self._path)

    # --

    def _read(
        self, committed: bool, partition: int | None, from_: From | None, timeout: float
    ) -> tuple[list[Record], dict[int, int], bool]:
        """Records, where to go on, and whether there is more already."""
        answer = self._control().get(
            f"{self._path}/records",
            committed=committed,
            partition=partition,
            timeout=timeout,
            **_from_parameter(from_),
        )
        positions = {int(index): offset for index, offset in answer["next"].items()}
        return [Record.of(record) for record in answer["records"]], positions, answer["more"]

    def _wait_where(
        self,
        count: int,
        where: Callable[[Record], object],
        timeout: float,
        committed: bool,
        partition: int | None,
        from_: From | None,
    ) -> list[Record]:
        deadline = time.monotonic() + timeout
        found: list[Record] = []
        last: list[Record] = []
        seen = 0
        while True:
            left = deadline - time.monotonic()
            records, from_, _ = self._read(committed, partition, from_, max(left, 0.0))
            found += [record for record in records if where(record)]
            seen += len(records)
            last = [*last, *records][-LAST_SHOWN:]
            if len(found) >= count:
                return found
            if left <= 0 and not records:
                shown = "".join(f"\n  {record}" for record in last)
                raise WaitTimeoutError(
                    f"{self.name} did not have {count} records for which `where` is true within {timeout:g} s: "
                    f"{len(found)} of {seen} match" + (f"; the last ones:{shown}" if last else "")
                )


def _fields(given: object, at: int) -> dict[str, Any]:
    """The parameters of `record_as_json` for an item of `produce_many`."""
    if isinstance(given, Record):
        return {"value": given.value, "key": given.key, "headers": given.headers, "timestamp": given.timestamp}
    if isinstance(given, tuple):
        if len(given) != 2:
            raise TypeError(f"records[{at}] = {given!r}: expected a pair (key, value)")
        return {"key": given[0], "value": given[1]}
    if isinstance(given, Mapping):
        unknown = set(given) - set(FIELDS)
        if unknown or "value" not in given:
            raise TypeError(
                f"records[{at}] = {given!r}: expected a dict with value, and perhaps key, headers, partition, "
                'timestamp; a value that is to be JSON is {"value": {...}}'
            )
        return dict(given)
    return {"value": given}


def _from_parameter(from_: object) -> dict[str, str]:
    if from_ is None:
        return {}
    if isinstance(from_, Mapping):
        return {"from": ",".join(f"{index}:{offset}" for index, offset in from_.items())} if from_ else {}
    if isinstance(from_, bool) or not isinstance(from_, int):
        raise TypeError(f"from_ = {from_!r}: expected an offset (int), or a dict of partition to offset")
    return {"from": str(from_)}


def _expected_value(value: object) -> dict[str, Any]:
    if value is ...:
        return {}
    if value is None:
        return {"tombstone": True}
    if isinstance(value, Mapping):
        return {"json": plain(dict(value))}
    if not isinstance(value, bytes | bytearray | memoryview | str):
        raise TypeError(f"value = {value!r}: expected a dict (a part of the JSON), bytes, str or None (a tombstone)")
    return dict(content_as_json("value", value))


def _expected_key(key: object) -> dict[str, Any]:
    if key is None:
        raise TypeError("key = None: expected bytes or str; leave it out for any key")
    if isinstance(key, Mapping):
        return {"key_json": plain(dict(key))}
    return content_as_json("key", key)
