"""One configuration: its name, type, default, range, unit, doc and where it may be changed while the broker runs.

Parsing and its error texts follow `org.apache.kafka.common.config.ConfigDef`, since clients see them
(INVALID_CONFIG answers of CreateTopics and the AlterConfigs calls).

Units, choices and rules that several domains share.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from protocol.java_strings import java_trim

Value = bool | int | float | str | tuple[str, ...] | None

# Patterns are compiled when first needed, which most never are.
# As long as a 64-bit number may be, leading zeros aside: Python's `int` raises ValueError for thousands of digits.
_INTEGER = r"([+-]?)0*(\d{1,19})"
_DOUBLE = r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)"
_COMMA = r"(?a:\s*,\s*)"


class ConfigType(enum.IntEnum):
    """Kafka's types, numbered as in DescribeConfigs answers (`DescribeConfigsResponse.ConfigType`)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


class UpdateMode(enum.StrEnum):
    """Where a broker configuration may be altered at run time (`DynamicBrokerConfig.dynamicConfigUpdateModes`)."""

    READ_ONLY = "read-only"
    PER_LISTENER = "per-listener"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class InvalidValueError(ValueError):
    """A value that a definition rejects, with the text of Kafka's ConfigException."""

    def __init__(self, name: str, value: object, complaint: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {complaint}")


@dataclass(frozen=True, slots=True)
class Check:
    """A rule for parsed values: `refuse` returns the offending part and the complaint, or None.

    `unique`: what a list names again is left out.
    """

    refuse: Callable[[Value], tuple[object, str] | None]
    expected: str
    unique: bool = False


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker configuration that provides a topic configuration's default: its value times `factor`."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigDef:
    """One configuration. `default` is already parsed; `synonyms` (topics only) come highest precedence first.

    Attributes:
        of_plugin: in Kafka only a plugin knows it, so that DescribeConfigs treats it as one that nobody knows.
        has_effect: whether anything here asks for its value. One without is accepted, checked as in Kafka, and told.
    """

    name: str
    type: ConfigType
    default: Value
    doc: str
    check: Check | None = None
    unit: str = ""
    mode: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()
    internal: bool = False
    of_plugin: bool = False
    has_effect: bool = True

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def expected(self) -> str:
        """The allowed values, as a text."""
        kind = _KINDS[self.type]
        if self.type is ConfigType.LIST and self.check is None:
            return f"{kind} without empty entries"
        return f"{kind}, {self.check.expected}" if self.check else kind

    def parse(self, text: str) -> Value:
        """The value of `text`, typed and checked. Raises InvalidValueError."""
        value = _parse_type(self.name, text, self.type)
        self.validate(value)
        if self.check and self.check.unique and isinstance(value, tuple):
            return tuple(dict.fromkeys(value))
        return value

    def validate(self, value: Value) -> None:
        """Raises InvalidValueError if `value`, of the right type, breaks the rule of this configuration."""
        refused = self.check.refuse(value) if self.check else None
        if refused:
            raise InvalidValueError(self.name, *refused)
        if self.check is None and isinstance(value, tuple) and "" in value:
            raise InvalidValueError(self.name, to_text(value), "entries must not be empty")

    @property
    def default_text(self) -> str | None:
        return to_text(self.default)


_KINDS = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "a string",
    ConfigType.INT: "a 32-bit integer",
    ConfigType.SHORT: "a 16-bit integer",
    ConfigType.LONG: "a 64-bit integer",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a comma separated list",
    ConfigType.CLASS: "a class name",
    ConfigType.PASSWORD: "a password",
}


def _parse_type(name: str, text: str, kind: ConfigType) -> Value:
    trimmed = java_trim(text)
    match kind:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise InvalidValueError(name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
            number = parse_integer(trimmed, _BITS[kind])
            if number is None:
                raise InvalidValueError(name, text, f"Not a number of type {kind.name}")
            return number
        case ConfigType.DOUBLE:
            if not re.fullmatch(_DOUBLE, trimmed):
                raise InvalidValueError(name, text, "Not a number of type DOUBLE")
            return float(trimmed.rstrip("fFdD"))
        case ConfigType.LIST:
            return tuple(re.split(_COMMA, trimmed)) if trimmed else ()
        case ConfigType.CLASS:
            return text  # error messages show it with the surrounding space
        case _:
            return trimmed


def parse_integer(text: str, bits: int) -> int | None:
    """The number, as Java parses a signed one of `bits` bits; None for any other text."""
    match = re.fullmatch(_INTEGER, text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    bound = 1 << (bits - 1)
    return number if -bound <= number < bound else None


def integer_of(values: Mapping[str, Value], name: str) -> int:
    """The parsed value of a configuration that is a number and always has one."""
    value = values[name]
    assert isinstance(value, int)
    return value


def to_text(value: Value) -> str | None:
    """`value` as `ConfigDef.convertToString` writes it; None stays None."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return _java_double(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def _java_double(value: float) -> str:
    """Java's `Double.toString`: plain between 1e-3 and 1e7, `1.0E10` beyond."""
    text = repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7 or "n" in text:
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)
    sign, digits, exponent = _decimal_parts(value)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _decimal_parts(value: float) -> tuple[str, str, int]:
    """Sign, shortest digits, and the exponent of the first digit."""
    from decimal import Decimal

    number = Decimal(repr(value))
    parts = number.as_tuple()
    digits = "".join(map(str, parts.digits)).rstrip("0") or "0"
    return "-" if parts.sign else "", digits, number.adjusted()


def at_least(low: float, high: float | None = None) -> Check:
    """`ConfigDef.Range`: both bounds are inclusive."""

    def refuse(value: Value) -> tuple[object, str] | None:
        if not isinstance(value, int | float):
            return value, "Value must be non-null"
        if value < low:
            return to_text(value), f"Value must be at least {low}"
        if high is not None and value > high:
            return to_text(value), f"Value must be no more than {high}"
        return None

    return Check(refuse, f"at least {low}" if high is None else f"from {low} to {high}")


def one_of(*allowed: str, ignore_case: bool = False) -> Check:
    """`ConfigDef.ValidString`, or `CaseInsensitiveValidString`."""
    known = {text.upper() for text in allowed} if ignore_case else set(allowed)
    choice = ", ".join(allowed)
    kind = "String must be one of (case insensitive)" if ignore_case else "String must be one of"

    def refuse(value: Value) -> tuple[object, str] | None:
        text = value.upper() if ignore_case and isinstance(value, str) else value
        return None if text in known else (value, f"{kind}: {choice}")

    return Check(refuse, f"one of {choice}")


def _refuse_empty(value: Value) -> tuple[object, str] | None:
    return (value, "String must be non-empty") if value == "" else None


NON_EMPTY = Check(_refuse_empty, "non-empty string")
"""`ConfigDef.NonEmptyString`: no value at all is fine."""


def java_class(known: str | None) -> Check:
    """A class that exists in a JVM without plugins: only `known`."""

    def refuse(value: Value) -> tuple[object, str] | None:
        found = java_trim(value) if isinstance(value, str) else value
        return None if found == known else (value, f"Class {value} could not be found.")

    return Check(refuse, str(known))


def each_of(*allowed: str) -> Check:
    """`ConfigDef.ValidList`: every entry is one of `allowed`; each counts once."""
    choice = ", ".join(allowed)

    def refuse(value: Value) -> tuple[object, str] | None:
        assert isinstance(value, tuple)
        wrong = next((entry for entry in value if entry not in allowed), None)
        return None if wrong is None else (wrong, f"String must be one of: {choice}")

    return Check(refuse, f"each of {choice}", unique=True)


INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
LARGEST_RECORD = INT_MAX - 8
"""In bytes: the largest array of a JVM (`Records.SOFT_MAX_ARRAY_LENGTH`)."""
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


_UNITS = {"ms": "ms", "seconds": "s", "minutes": "minutes", "hours": "hours"} | {
    unit: unit for unit in ("bytes", "partitions", "threads")
}
"""The unit of a number whose name ends so, unless its row has another."""


class ConfigRow(NamedTuple):
    """A configuration in a table, whose key is the name. See `ConfigDef`."""

    type: ConfigType
    default: Value
    doc: str
    check: Check | None = None
    unit: str = ""
    mode: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()
    internal: bool = False
    of_plugin: bool = False
    has_effect: bool = True

    def named(self, name: str) -> ConfigDef:
        unit = self.unit
        if not unit and (self.type in _BITS or self.type is ConfigType.DOUBLE):
            unit = _UNITS.get(name.rpartition(".")[2], "")
        doc = self.doc if self.has_effect else f"{self.doc} No effect here."
        return ConfigDef(name, self.type, self.default, doc, self.check, unit, *self[5:])


Rows = dict[str, ConfigRow]

# In the order of `ConfigType`.
boolean, string, integer, short, long, double, entries, class_name, password = (
    partial(ConfigRow, kind) for kind in ConfigType
)
CLUSTER, PER_BROKER, PER_LISTENER = UpdateMode.CLUSTER_WIDE, UpdateMode.PER_BROKER, UpdateMode.PER_LISTENER
