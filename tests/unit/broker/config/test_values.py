"""Parsing and writing of values as Kafka's ConfigDef does it."""

from __future__ import annotations

import pytest

from broker.config.definition import ConfigDef, ConfigType, InvalidValueError, Value, at_least, each_of, one_of, to_text


def definition(kind: ConfigType, **more: object) -> ConfigDef:
    return ConfigDef("a.name", kind, None, "", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.INT, "+5", 5),
        (ConfigType.INT, "-\u0663", -3),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.INT, "-" + "0" * 5000 + "7", -7),
        (ConfigType.INT, "000", 0),
        (ConfigType.LONG, " 9223372036854775807", 2**63 - 1),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.DOUBLE, "1e-2d", 0.01),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.DOUBLE, "-Infinity", float("-inf")),
        (ConfigType.LIST, " a , b,c ", ("a", "b", "c")),
        (ConfigType.LIST, "a\x0b,b\xa0,c", ("a", "b\xa0", "c")),
        (ConfigType.LIST, "  ", ()),
        (ConfigType.STRING, " x y ", "x y"),
    ],
)
def test_right_values(kind: ConfigType, text: str, value: Value) -> None:
    assert definition(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.INT, "9" * 5000, "Not a number of type INT"),
        (ConfigType.INT, "²", "Not a number of type INT"),
        (ConfigType.INT, "", "Not a number of type INT"),
        (ConfigType.LONG, "1.0", "Not a number of type LONG"),
        (ConfigType.SHORT, "32768", "Not a number of type SHORT"),
        (ConfigType.DOUBLE, "1e", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "inf", "Not a number of type DOUBLE"),
    ],
)
def test_wrong_values(kind: ConfigType, text: str, complaint: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        definition(kind).parse(text)
    assert str(raised.value) == f"Invalid value {text} for configuration a.name: {complaint}"


def test_a_range_holds_its_bounds() -> None:
    ranged = definition(ConfigType.INT, check=at_least(1, 9))
    assert (ranged.parse("1"), ranged.parse("9")) == (1, 9)
    for text, complaint in (("0", "Value must be at least 1"), ("10", "Value must be no more than 9")):
        with pytest.raises(InvalidValueError, match=complaint):
            ranged.parse(text)


def test_a_choice_may_ignore_case() -> None:
    choice = definition(ConfigType.STRING, check=one_of("UP", "DOWN", ignore_case=True))
    assert choice.parse("up") == "up"
    with pytest.raises(InvalidValueError, match="case insensitive"):
        choice.parse("left")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.00001, "1.0E-5"),
        (12345678.5, "1.23456785E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-1e10, "-1.0E10"),
        (0.0, "0.0"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (("a", "b"), "a,b"),
        ((), ""),
        (7, "7"),
    ],
)
def test_values_are_written_as_java_writes_them(value: Value, text: str | None) -> None:
    assert to_text(value) == text


def test_what_a_list_of_choices_names_again_is_left_out() -> None:
    definition = ConfigDef("policies", ConfigType.LIST, ("delete",), "", each_of("compact", "delete"))
    assert definition.parse("delete, compact,delete") == ("delete", "compact")
