"""`odradek consume`: the last records, null told from empty, and options by the names of other tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import sound_broker
from tests.command_line import Odradek

RECORDS = """\
{"key": "a", "value": "one", "headers": [["h", ""], ["n", null]]}
{"key": "", "value": ""}
{"key": null, "value": null}
"""


@pytest.fixture(scope="module")
def odradek(own_cluster: None) -> Iterator[Odradek]:
    with sound_broker() as broker:
        odradek = Odradek(broker.bootstrap_servers)
        odradek.told("topics", "create", "orders", "-p", "2")
        odradek.told("produce", "orders", "-f", "json", "-p", "0", stdin=RECORDS)
        yield odradek


def test_the_last_of_each_partition(odradek: Odradek) -> None:
    form = ("-f", "%p/%o\\n")
    assert odradek.told("consume", "orders", "--last", "2", *form) == "0/1\n0/2\n"
    assert odradek.told("consume", "orders", "--last", "9", *form) == "0/0\n0/1\n0/2\n"
    assert odradek.told("consume", "orders", "--last", "1", "-p", "1", *form) == ""
    for wrong in (("-o", "start"), ("-g", "readers")):
        assert odradek.run("consume", "orders", "--last", "2", *wrong)[0] == 2


def test_null_is_told_from_empty(odradek: Odradek) -> None:
    form = ("-e", "-f", "%k=%v %h %K %S\\n")
    assert odradek.told("consume", "orders", *form) == "a=one h=,n= 1 3\n=  0 0\n=  -1 -1\n"
    assert odradek.told("consume", "orders", "--null", "NIL", *form) == "a=one h=,n=NIL 1 3\n=  0 0\nNIL=NIL  -1 -1\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--topic", "orders", "--from-beginning", "--max-messages", "1", "--isolation-level", "read_committed"),
        ("--topic=orders", "--from-beginning", "--max-messages=1"),
        ("-C", "-t", "orders", "-o", "beginning", "-c", "1", "-e"),
        ("orders", "--num", "1", "--read-committed"),
        ("orders", "--group", "readers", "--from-beginning", "--num", "1"),
    ],
    ids=["kafka-console-consumer", "with-equals-signs", "kcat", "rpk", "a-group-from-the-beginning"],
)
def test_options_by_the_names_of_other_tools(odradek: Odradek, arguments: tuple[str, ...]) -> None:
    assert odradek.told("consume", *arguments) == "one\n"


def test_kcats_forms_and_its_producer(odradek: Odradek) -> None:
    odradek.told("produce", "-P", "-t", "orders", "-p", "1", "two")
    assert odradek.told("consume", "-t", "orders", "-p", "0", "-e", "-Z", "-f", "%s\\n") == "one\n\nNULL\n"
    assert '"value": "two"' in odradek.told("consume", "-t", "orders", "-p", "1", "-e", "-J")
