"""What a page is asked, what its user may see and do, and what the page gives."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from broker.authorization.console_table import NOTHING, PageRights
from broker.network.request import ANONYMOUS, Principal
from broker.node import Node
from broker.testkit.control.budget import Budget
from broker.testkit.control.endpoint import ControlError
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from protocol.api.table import asked_for
from protocol.records.cut import CutLimits

if TYPE_CHECKING:
    from broker.console.audit import Audit
    from broker.console.history import History
    from broker.console.registry import AnyRegistry
    from broker.security.permissions import Permissions
    from protocol.api.rights import Resource


@dataclass(frozen=True, slots=True)
class Rights:
    """Everything is allowed without `permissions`. `user` is None without a login.

    `asked` is the line of the page or action in the table, `named` what stands there: its code asks about nothing else.
    """

    user: str | None = None
    permissions: Permissions | None = None
    principal: Principal = ANONYMOUS
    asked: PageRights = NOTHING
    named: frozenset[tuple[str, ResourceType]] = frozenset()

    def of(self, asked: PageRights) -> Rights:
        """The same user's, for a page or an action."""
        named = frozenset((right.api, right.resource_type) for right in (*asked.needed, *asked.shown))
        return replace(self, asked=asked, named=named)

    @property
    def are_all(self) -> bool:
        """Whether nothing is kept from the user."""
        return self.permissions is None or self.permissions.is_super_user

    def allow(self, api: str, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether the API would tell or do it for this user; nothing is logged if not."""
        return self._allow(api, resource_type, name, log_denied=False)

    def check(self, api: str, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raises ControlError (403)."""
        if not self._allow(api, resource_type, name, log_denied=True):
            operations = " or ".join(each.name for each in _operations(api, resource_type)[0])
            resource = resource_type.name.lower().replace("_", " ")
            raise ControlError(f"{self.user} may not {operations} the {resource} {name}", status=403)

    def check_needed(self, given: Mapping[str, str]) -> None:
        """Check what the page or action needs, by the names that the request has. Raises ControlError."""
        for right in self.asked.needed:
            if right.named is None:
                self.check(right.api, right.resource_type)
            elif right.named in given:  # its absence is what is wrong then
                self.check(right.api, right.resource_type, given[right.named])

    def _allow(self, api: str, resource_type: ResourceType, name: str, *, log_denied: bool) -> bool:
        assert (api, resource_type) in self.named, f"the console's table has no {api} on {resource_type.name} here"
        permissions = self.permissions
        if permissions is None or permissions.is_super_user:
            return True
        operations, unless = _operations(api, resource_type)
        if unless is not None and permissions.allows(unless, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=False):
            return True
        return any(permissions.allows(each, resource_type, name, log_denied=log_denied) for each in operations)


def _operations(api: str, resource_type: ResourceType) -> tuple[list[AclOperation], AclOperation | None]:
    operations, unless = asked_for(api, cast("Resource", resource_type.name))
    return [AclOperation[each] for each in operations], None if unless is None else AclOperation[unless]


NAMES_A_TURN = 200
LONGEST_TYPED = 4_000
"""Characters for which an address has room: proxies and browsers refuse much longer ones."""

MOST = CutLimits(content=256 << 10, headers=100, header_content=64 << 10)
"""What is kept of a record that is shown whole, or looked through."""


class Few:
    """What runs for users at one time, and how much may: of all of them, and of one of them who has logged in."""

    def __init__(self, what: str, most: int, most_of_one: int) -> None:
        self._what = what
        self._most = most
        self._most_of_one = most_of_one
        self.running: Counter[str | None] = Counter()

    @contextmanager
    def one(self, user: str | None) -> Iterator[None]:
        """Count one more meanwhile. Raises ControlError (429) if there are enough."""
        most_of_one = self._most if user is None else self._most_of_one
        if self.running.total() >= self._most or self.running[user] >= most_of_one:
            raise ControlError(f"too many {self._what} run now: end one of them, or try again later", status=429)
        self.running[user] += 1
        try:
            yield
        finally:
            self.running[user] -= 1
            self.running += Counter()  # without those who have none


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for a page. `given` has the query's parameters; `registry` knows schemas, where one is set.

    `budget` is what the answer may cost, `searches` the searches that run. `address` is that of the browser, and
    `audit` has the last forms that were sent.
    """

    node: Node
    given: Mapping[str, str]
    rights: Rights
    history: History
    registry: AnyRegistry | None = None
    budget: Budget = field(default_factory=lambda: Budget(MOST))
    searches: Few = field(default_factory=lambda: Few("searches", 2, 1))
    address: str = "127.0.0.1"
    audit: Audit | None = None

    @property
    def can_write(self) -> bool:
        return self.node.local.config.boolean("odradek.console.write")

    def text(self, name: str, default: str = "") -> str:
        return self.given.get(name, default).strip()

    def name(self, parameter: str) -> str:
        """The name of what is looked at, exactly as it is. Raises ControlError if there is none."""
        if parameter not in self.given:
            raise ControlError(f"{parameter} is missing", parameter=parameter)
        return self.given[parameter]

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of these, by default the first. Raises ControlError."""
        value = self.text(name, choices[0]) or choices[0]
        if value not in choices:
            raise ControlError(f"{name} = {value!r}: expected one of {', '.join(choices)}", parameter=name)
        return value

    def needed(self, name: str) -> str:
        """A name that has to be there, exactly as it is: so it was checked. Raises ControlError."""
        value = self.given.get(name, "")
        if not value:
            raise ControlError(f"{name} is missing", parameter=name)
        return value

    def typed(self, name: str) -> dict[str, str]:
        """The fields of a form that was only checked, for the address of its page; only `name` if they are too long."""
        found = {field: value for field, value in self.given.items() if field != "do" and value.strip()}
        return found if sum(map(len, found.values())) <= LONGEST_TYPED else {name: self.given[name]}

    def integer(self, name: str, default: int = 0, most: int = (1 << 63) - 1) -> int:
        """A whole number from 0 on. Raises ControlError."""
        value = self.text(name)
        if not value:
            return default
        digits = value.lstrip("0")[:20] or "0"
        if not (value.isascii() and value.isdecimal()) or int(digits) > most:
            end = "on" if most > 1 << 31 else f"to {most}"
            raise ControlError(f"{name} = {value!r}: expected a whole number from 0 {end}", parameter=name)
        return int(digits)


class Done(NamedTuple):
    """What a form has done: the parameters of the page that is shown then; `said` and `back` where they differ."""

    given: Mapping[str, str | int] = MappingProxyType({})
    said: str = ""
    back: str = ""


Values = dict[str, Any]
"""What the template of a page shows; `title` takes the place of the title in the table of pages."""


async def allowed(rights: Rights, api: str, resource_type: ResourceType, names: list[str]) -> list[str]:
    """Those names of which the API would tell the user; the loop gets a turn in between."""
    if rights.are_all:
        return names
    found: list[str] = []
    for first in range(0, len(names), NAMES_A_TURN):
        found += (name for name in names[first : first + NAMES_A_TURN] if rights.allow(api, resource_type, name))
        await asyncio.sleep(0)
    return found


class Paging(NamedTuple):
    """A part of a list: `number` counts from 0; `rows` are those of this part, and `total` is the length of all."""

    number: int
    rows: list[Any]
    total: int
    size: int

    @property
    def first(self) -> int:
        return self.number * self.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        return self.number * self.size + len(self.rows)

    @property
    def has_more(self) -> bool:
        return self.last < self.total


def paged(ask: Ask, rows: list[Any], size: int, parameter: str = "page") -> Paging:
    """The part of the rows that is asked for, or the last one there is."""
    last = max(len(rows) - 1, 0) // size
    number = min(ask.integer(parameter), last)
    return Paging(number, rows[number * size : (number + 1) * size], len(rows), size)
