"""What the command line reads and draws without a cluster: positions, charts, wrong names."""

from __future__ import annotations

from typing import Any

import click
import pytest

from odradek.cli.bench import histogram, percentile, sparkline
from odradek.cli.general import Seconds, wrong_command
from odradek.cli.kafka_python import KAFKAS_NAMES, name_of
from odradek.cli.positions import POSITION
from odradek.cli.records import formatter, from_json
from protocol.errors import type_by_code


def position(text: str) -> Any:
    return POSITION.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("@1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_a_time_is_milliseconds(text: str, milliseconds: int) -> None:
    assert position(text).timestamp == milliseconds


def test_an_offset_is_a_number_and_words_have_synonyms() -> None:
    assert position("12") == 12
    assert position("-12") == -12, "12 before the end"
    assert position("start") is position("earliest") is position("beginning")
    assert position("end") is position("latest")
    assert position("start") is not position("end")


@pytest.mark.parametrize("text", ["", "yesterday", "--5", "-5x", "1.5", "@", "²"])
def test_another_position_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected start, end, an offset"):
        position(text)


def test_charts() -> None:
    assert sparkline([0, 1, 2]) == "▁▅█"
    assert sparkline([0, 0]) == "▁▁"
    lines = histogram([1.0, 1.0, 2.0], "ms", rows=2)
    assert [line.rpartition(" ")[2] for line in lines] == ["2", "1"]
    assert lines[0].count("█") == 2 * lines[1].count("█")
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.999) == 1.0


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    assert wrong_command("lsit", ["list", "create"]).endswith("did you mean list?")
    assert wrong_command("xyzzy", ["list", "create"]) == "there is no command 'xyzzy'; there are list, create"
    assert wrong_command("start", ["serve"], {"start": "serve"}).endswith("did you mean serve?")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("[]", "line 3: expected an object"),
        ('{"headers": 1}', "line 3: headers"),
        ('{"value": "\\ud800"}', "line 3: value"),
        ('{"key": {"base64": "*"}}', "line 3: key"),
    ],
)
def test_a_wrong_line_is_named(line: str, text: str) -> None:
    with pytest.raises(click.ClickException, match=text):
        from_json(line, 3)


def test_a_value_that_is_no_text_is_json() -> None:
    record = from_json('{"key": null, "value": {"id": 7}, "headers": {"kind": "x"}}', 1)
    assert record == {"key": None, "value": b'{"id": 7}', "headers": [("kind", b"x")]}


def test_errors_have_kafkas_names() -> None:
    assert {code.value: name_of(code.value) for code in type_by_code} == {
        code.value: code.name.upper() for code in type_by_code
    }
    assert KAFKAS_NAMES.keys() <= {code.value for code in type_by_code}


@pytest.mark.parametrize("form", ["%z", "%k %", "%%%x", "%v%%%é"])
def test_a_template_with_an_unknown_field_is_refused(form: str) -> None:
    with pytest.raises(click.BadParameter, match="expected %t %p"):
        formatter(form)


@pytest.mark.parametrize("form", ["%%z", "%v\\n", "%k%%"])
def test_a_percent_sign_is_written_twice(form: str) -> None:
    formatter(form)


@pytest.mark.parametrize(
    "text",
    [
        "9223372036854775808",
        "@9223372036854775808",
        "@-1",
        "0001-01-01",
        "9999-12-31T23:59:59-23:59",
        "1969-12-31T00:00:00Z",
        "9" * 5000,
        f"-{'9' * 30}d",
        "２",
    ],
)
def test_a_position_beyond_what_kafka_has_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected start, end, an offset"):
        position(text)


def test_the_largest_positions_are_taken() -> None:
    assert position("9223372036854775807") == 2**63 - 1
    assert position("@9223372036854775807").timestamp == 2**63 - 1
    assert position("-999999999999d").timestamp == 0


@pytest.mark.parametrize("timestamp", ["0", "-1", "9223372036854775808", "true", "1.5", '"x"'])
def test_a_timestamp_that_cannot_be_written_is_named(timestamp: str) -> None:
    with pytest.raises(click.ClickException, match=r"line 7: timestamp = .*: expected milliseconds since 1970"):
        from_json(f'{{"timestamp": {timestamp}}}', 7)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "0", "1e300"])
def test_seconds_are_a_number_in_the_range(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Seconds(300).convert(text, None, None)
