"""Tables that are sorted by a heading: a heading is a link to the same page, with all that was asked of it before.

What a row shows may be costly to know, such as the lag of a group. Where a list is too long for that, the rows of the
part that is shown are sorted among themselves, and the page says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from broker.console.ask import Ask, Paging, paged

T = TypeVar("T")
R = TypeVar("R")

MOST_SORTED = 1_000
"""Rows of a list that are made so that it can be sorted by something which only rows have."""

SORTED_AT_ONCE = 2_000
"""More are sorted in a thread."""

Key = Callable[[Any], Any]


class Column(NamedTuple):
    """A heading. `name` is what addresses call it; `key` what a row has of it, None if nothing can be sorted by it.

    `of` is the same of the thing that a row is made of, where that is known without making the row. `most_first`: the
    first click has the highest first.
    """

    name: str
    title: str
    key: Key | None = None
    is_number: bool = False
    most_first: bool = False
    of: Key | None = None


def texts(name: str, title: str, key: Key | None = None, *, of: Key | None = None) -> Column:
    return Column(name, title, key or itemgetter(name), of=of)


def numbers(name: str, title: str, key: Key | None = None, *, of: Key | None = None) -> Column:
    return Column(name, title, key or itemgetter(name), is_number=True, most_first=True, of=of)


def times(name: str, title: str, key: Key | None = None) -> Column:
    return Column(name, title, key or itemgetter(name), most_first=True)


CHANGE = Column("change", "Change")
"""The heading over the forms of each row."""


def with_forms(ask: Ask, columns: Sequence[Column]) -> Sequence[Column]:
    """The same, and one for forms where the console may change things."""
    return (*columns, CHANGE) if ask.can_write else columns


class Order(NamedTuple):
    """How a table is sorted; by no column, it is as the page has it.

    `is_partly`: only within the part of the list that is shown.
    """

    columns: Sequence[Column]
    parameter: str
    column: Column | None = None
    descending: bool = False
    is_partly: bool = False

    def direction(self, column: Column) -> str:
        """For `aria-sort`; empty for another column than that by which the table is sorted."""
        return "" if column is not self.column else "descending" if self.descending else "ascending"

    def given(self, column: Column, query: Mapping[str, str]) -> dict[str, str | None]:
        """The parameters of a heading's link: the other way round if it is the one."""
        descending = not self.descending if column is self.column else column.most_first
        return {**query, "page": None, self.parameter: f"{'-' if descending else ''}{column.name}"}

    def sort(self, rows: Sequence[T], key: Key | None = None) -> list[T]:
        """The rows in order; those of which the column knows nothing come last, whichever way."""
        key = key or (None if self.column is None else self.column.key)
        if key is None:
            return list(rows)
        keyed = [(key(row), row) for row in rows]
        known = [pair for pair in keyed if pair[0] is not None]
        known.sort(key=itemgetter(0), reverse=self.descending)
        return [row for _, row in known] + [row for found, row in keyed if found is None]


def order_of(ask: Ask, columns: Sequence[Column], table: str = "") -> Order:
    """The order that is asked for, by `sort`, or `sort-TABLE` on a page with several. Raises ControlError."""
    parameter = f"sort-{table}" if table else "sort"
    by_name = {f"{sign}{one.name}": one for one in columns if one.key is not None for sign in ("", "-")}
    asked = ask.choice(parameter, ("", *by_name))
    return Order(columns, parameter, by_name.get(asked), asked.startswith("-"))


def sorted_part(ask: Ask, columns: Sequence[Column], rows: Sequence[Any], size: int) -> tuple[Order, Paging]:
    """The part of the rows that is asked for, in the order that is asked for. Raises ControlError."""
    order = order_of(ask, columns)
    return order, paged(ask, order.sort(rows), size)


async def arranged(
    ask: Ask,
    columns: Sequence[Column],
    found: Sequence[T],
    size: int,
    rows_of: Callable[[list[T]], Awaitable[list[R]]],
) -> tuple[Order, Paging, list[R]]:
    """The rows of the part that is asked for, in the order that is asked for. Raises ControlError."""
    order = order_of(ask, columns)
    column = order.column
    if column is not None and column.of is None and len(found) <= MOST_SORTED:
        shown = paged(ask, order.sort(await rows_of(list(found))), size)
        return order, shown, shown.rows
    if column is not None and column.of is not None:
        if len(found) > SORTED_AT_ONCE:
            found = await asyncio.to_thread(order.sort, tuple(found), column.of)
        else:
            found = order.sort(found, column.of)
    shown = paged(ask, list(found), size)
    rows = await rows_of(shown.rows)
    if column is not None and column.of is None:
        return order._replace(is_partly=True), shown, order.sort(rows)
    return order, shown, rows
