"""The differences between two JSON Schemas, part by part, as Confluent's registry finds them.

Parts are compared by kind. Alternatives are compared each with each, and paired so that as many as possible fit. A part
that is being compared already, since a schema may refer to itself, counts as fitting; if it turns out that it does not,
all is compared again with that known, until nothing new turns up (Confluent's `Context.compareMemoized`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from broker.registry.formats.json_arrays import compare_arrays
from broker.registry.formats.json_limits import compare_limits, limits_of, number_of
from broker.registry.formats.json_nodes import ANYTHING, COMBINED, FALSE, TRUE, Node
from broker.registry.formats.json_objects import compare_objects
from broker.registry.formats.json_rules import Difference, Kind
from broker.registry.formats.parsed import Work

Pair = tuple[int, int]
_EMPTY = (ANYTHING, TRUE)


def differences(earlier: Node, later: Node, policy: str, work: Work) -> list[Difference]:
    """All differences, allowed or not. Raises RegistryError if there is too much to compare."""
    known: frozenset[Pair] = frozenset()
    while True:
        comparison = Comparison(policy, work, known)
        found = comparison.compare(earlier, later, "")
        if not comparison.cut or comparison.unfit == known:
            return found
        known = comparison.unfit


class Comparison:
    """One comparison of everything. `known` are pairs that do not fit, as far as an earlier one has found.

    Attributes:
        cut: a pair was met within itself.
    """

    def __init__(self, policy: str, work: Work, known: frozenset[Pair]) -> None:
        self._policy = policy
        self._work = work
        self._known = known
        self._memory: dict[Pair, list[Difference] | None] = {}
        self.cut = False

    @property
    def unfit(self) -> frozenset[Pair]:
        return frozenset(pair for pair, found in self._memory.items() if found and not self.fits(found))

    def fits(self, found: list[Difference]) -> bool:
        """Whether all differences are allowed."""
        return all(each.kind.is_allowed(self._policy) for each in found)

    def compare(self, earlier: Node | None, later: Node | None, path: str) -> list[Difference]:
        """The differences of two parts, of which either may be absent."""
        if earlier is None or later is None:
            if earlier is later:
                return []
            return [Difference(Kind.SCHEMA_ADDED if earlier is None else Kind.SCHEMA_REMOVED, path)]
        earlier, later = earlier.document.referred(earlier), later.document.referred(later)
        pair = id(earlier), id(later)
        if pair not in self._memory:
            self._memory[pair] = None
            self._memory[pair] = self._types(earlier, later)
        found = self._memory[pair]
        if found is None:
            self.cut = True
            found = [Difference(Kind.TYPE_CHANGED, "")] if pair in self._known else []
        self._work.spend(1 + len(found))
        return [Difference(kind, path + rest) for kind, rest in found]

    def _types(self, earlier: Node, later: Node) -> list[Difference]:
        self._work.spend()
        chosen = self._one_with_several(earlier, later)
        if chosen is not None:
            return chosen
        if _class(earlier) != _class(later):
            if earlier.kind == FALSE or later.kind in _EMPTY or _both_bytes(earlier, later):
                return []
            return [Difference(Kind.TYPE_CHANGED, "")]
        return [*_annotations(earlier, later), *self._of_kind(earlier, later)]

    def _one_with_several(self, earlier: Node, later: Node) -> list[Difference] | None:
        """A part that became a combination, or was one; None if that does not say everything."""
        if earlier.kind not in COMBINED and later.kind in COMBINED:
            others, kind = later.parts, Kind.SUM_TYPE_EXTENDED if later.kind != "allOf" else None
        elif earlier.kind in COMBINED and later.kind not in COMBINED:
            others, kind = earlier.parts, Kind.PRODUCT_TYPE_NARROWED if earlier.kind == "allOf" else None
        else:
            return None
        if len(others) > 1 and kind is None:
            return None
        for other in others:
            found = self.compare(earlier, other, "") if others is later.parts else self.compare(other, later, "")
            if self.fits(found):
                return found if len(others) == 1 or kind is None else [*found, Difference(kind, "")]
        return None

    def _of_kind(self, earlier: Node, later: Node) -> list[Difference]:
        match earlier.kind:
            case "string":
                return [*compare_limits(_STRINGS, earlier, later), *_pattern(earlier, later)]
            case "number":
                return [
                    *compare_limits(_NUMBERS, earlier, later),
                    *_multiple_of(earlier, later),
                    *_integer(earlier, later),
                ]
            case "const":
                same = same_value(earlier.values["const"], later.values["const"])
                return [] if same else [Difference(Kind.ENUM_ARRAY_CHANGED, "/const")]
            case "enum":
                return _enum(earlier.values["enum"], later.values["enum"])
            case "not":
                fits = self.fits(self.compare(later.parts[0], earlier.parts[0], ""))
                return [Difference(Kind.NOT_TYPE_NARROWED if fits else Kind.NOT_TYPE_EXTENDED, "/not")]
            case "object":
                return compare_objects(self, earlier, later)
            case "array":
                return compare_arrays(self, earlier, later)
            case kind if kind in COMBINED:
                return self._combined(earlier, later)
        return []

    def _combined(self, earlier: Node, later: Node) -> list[Difference]:
        criterion = _criterion(earlier, later)
        found = [] if criterion is None else [Difference(criterion, "")]
        if criterion is Kind.COMBINED_TYPE_CHANGED:
            return found
        few, many = _distinct(earlier.parts), _distinct(later.parts)
        if len(few) < len(many):
            kind = Kind.PRODUCT_TYPE_EXTENDED if later.kind == "allOf" else Kind.SUM_TYPE_EXTENDED
            found.append(Difference(kind, ""))
        elif len(few) > len(many):
            kind = Kind.PRODUCT_TYPE_NARROWED if earlier.kind == "allOf" else Kind.SUM_TYPE_NARROWED
            found.append(Difference(kind, ""))
        fitting: dict[int, dict[int, list[Difference]]] = {}
        for at, one in enumerate(few):
            for to, other in enumerate(many):
                between = self.compare(one, other, f"/{earlier.kind}/{at}")
                if self.fits(between):
                    fitting.setdefault(at, {})[to] = between
        pairs = _matching(fitting, self._work.spend)
        for at, to in pairs.items():
            found += fitting[at][to]
        if len(pairs) < min(len(few), len(many)):
            found.append(Difference(Kind.COMBINED_TYPE_SUBSCHEMAS_CHANGED, ""))
        return found


def _class(node: Node) -> str:
    """What must be the same for two parts to be compared."""
    return "combined" if node.kind in COMBINED else node.kind


def _both_bytes(earlier: Node, later: Node) -> bool:
    """Whether both are Kafka Connect's way to write bytes."""
    return earlier.values.get("connect.type") == later.values.get("connect.type") == "bytes"


def _annotations(earlier: Node, later: Node) -> list[Difference]:
    pairs = (
        (Kind.ID_CHANGED, "$id"),
        (Kind.TITLE_CHANGED, "title"),
        (Kind.DESCRIPTION_CHANGED, "description"),
        (Kind.DEFAULT_CHANGED, "default"),
    )
    return [Difference(kind, "") for kind, name in pairs if earlier.values.get(name) != later.values.get(name)]


def _criterion(earlier: Node, later: Node) -> Kind | None:
    before, after = len(_distinct(earlier.parts)) == 1, len(_distinct(later.parts)) == 1
    if earlier.kind == later.kind:
        return None
    extended = (
        later.kind == "anyOf"
        or (before and after)
        or (before and later.kind == "oneOf")
        or (after and earlier.kind == "allOf")
    )
    return Kind.COMBINED_TYPE_EXTENDED if extended else Kind.COMBINED_TYPE_CHANGED


def _distinct(parts: list[Node]) -> list[Node]:
    """Without those that are written the same; two types of one list are not the same."""
    return list({_identity(part): part for part in reversed(parts)}.values())[::-1]


def _identity(part: Node) -> str:
    """The same for parts that are written the same."""
    if not part.identity:
        part.identity = f"{part.kind} {part.is_integer} {_key(part.values)}"
    return part.identity


def _matching(fitting: dict[int, dict[int, list[Difference]]], spend: Callable[[], None]) -> dict[int, int]:
    """As many pairs as possible, each part in one at most: paths are grown by what frees a partner."""
    partners: dict[int, int] = {}

    def place(at: int, tried: set[int]) -> bool:
        for to in fitting[at]:
            spend()
            if to not in tried:
                tried.add(to)
                if to not in partners or place(partners[to], tried):
                    partners[to] = at
                    return True
        return False

    for at in fitting:
        place(at, set())
    return {at: to for to, at in partners.items()}


def same_value(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same: true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _enum(earlier: list[Any], later: list[Any]) -> list[Difference]:
    def has_all(values: list[Any], others: list[Any]) -> bool:
        return {_key(value) for value in others} <= {_key(value) for value in values}

    extended, narrowed = has_all(later, earlier), has_all(earlier, later)
    if extended and narrowed:
        return []
    if extended:
        return [Difference(Kind.ENUM_ARRAY_EXTENDED, "/enum")]
    return [Difference(Kind.ENUM_ARRAY_NARROWED if narrowed else Kind.ENUM_ARRAY_CHANGED, "/enum")]


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


_STRINGS = limits_of("maxLength", "minLength")
_NUMBERS = limits_of("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")


def _pattern(earlier: Node, later: Node) -> list[Difference]:
    before, after = earlier.values.get("pattern"), later.values.get("pattern")
    if before == after:
        return []
    kind = Kind.PATTERN_ADDED if before is None else Kind.PATTERN_REMOVED if after is None else Kind.PATTERN_CHANGED
    return [Difference(kind, "/pattern")]


def _multiple_of(earlier: Node, later: Node) -> list[Difference]:
    before, after = (number_of(node.values.get("multipleOf")) for node in (earlier, later))
    if before == after:
        return []
    if before is None or after is None:
        return [Difference(Kind.MULTIPLE_OF_ADDED if before is None else Kind.MULTIPLE_OF_REMOVED, "/multipleOf")]
    old, new = Fraction(str(before)), Fraction(str(after))
    if old and not new % old:
        return [Difference(Kind.MULTIPLE_OF_EXPANDED, "/multipleOf")]
    return [Difference(Kind.MULTIPLE_OF_REDUCED if new and not old % new else Kind.MULTIPLE_OF_CHANGED, "/multipleOf")]


def _integer(earlier: Node, later: Node) -> list[Difference]:
    if earlier.is_integer == later.is_integer:
        return []
    return [Difference(Kind.TYPE_EXTENDED if earlier.is_integer else Kind.TYPE_NARROWED, "")]
