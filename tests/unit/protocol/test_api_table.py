"""The API table against what Apache Kafka 4.1 advertises and what kio's schemas say."""

from __future__ import annotations

from kio.schema.index import api_key_map

from protocol.api.messages import request_class, response_class
from protocol.api.row import Api
from protocol.api.table import API_BY_KEY, API_BY_NAME, API_TABLE
from tests.unit.protocol.every_version import each_version, every_api

KAFKA_4_4_ADVERTISED = """\
0:0-13 1:4-18 2:1-11 3:0-13 8:2-10 9:1-10 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 15:0-6 16:0-5 17:0-1 18:0-5 19:2-7 20:1-6
21:0-2 22:0-5 23:2-4 24:0-5 25:0-4 26:0-5 27:1-2 28:0-6 29:1-3 30:1-3 31:1-3 32:1-4 33:0-2 34:1-2 35:1-5 36:0-2 37:0-3
38:1-3 39:1-2 40:1-2 41:1-3 42:0-3 43:0-2 44:0-1 45:0-1 46:0-0 47:0-0 48:0-1 49:0-1 50:0-0 51:0-0 55:0-2 57:0-2 60:0-2
61:0-0 64:0-0 65:0-0 66:0-2 68:0-1 69:0-1 74:0-1 75:0-0 76:1-1 77:1-1 78:1-2 79:1-2 80:0-1 81:0-0 83:0-0 84:0-0 85:0-1
86:0-0 87:0-1 88:0-1 89:0-1 90:0-1 91:0-0 92:0-0 93:0-0 94:0-0
"""
"""`key:lowest-highest` in the order of the ApiVersions v4 answer of a broker of one combined node."""


def recorded() -> dict[int, tuple[int, int]]:
    rows = (entry.split(":") for entry in KAFKA_4_4_ADVERTISED.split())
    return {int(key): (int(span.split("-")[0]), int(span.split("-")[1])) for key, span in rows}


def test_every_advertised_range_is_kafkas() -> None:
    for api in API_TABLE:
        if api.advertised:
            assert (api.advertised_lowest, api.highest) == recorded()[api.key], api.name


def test_apis_that_kafka_hides_are_hidden() -> None:
    assert {api.name for api in API_TABLE if api.key not in recorded()} == {
        api.name for api in API_TABLE if not api.advertised
    }


def test_the_order_is_kafkas() -> None:
    assert [api.key for api in API_TABLE] == sorted(api.key for api in API_TABLE)


def test_only_produce_is_advertised_lower_than_served_and_pipelined() -> None:
    assert [api.name for api in API_TABLE if api.advertised_lowest != api.lowest] == ["produce"]
    assert [api.name for api in API_TABLE if api.pipelined] == ["produce"]
    assert not API_BY_NAME["produce"].serves(2)
    assert API_BY_NAME["produce"].serves(3)


def test_look_up_finds_each_row() -> None:
    assert [API_BY_KEY[api.key] for api in API_TABLE] == list(API_TABLE)
    assert [API_BY_NAME[api.name] for api in API_TABLE] == list(API_TABLE)


@every_api
def test_names_are_kios(api: Api) -> None:
    assert api_key_map.get(api.key) in (api.name, None)  # it knows no API that is newer than it


@each_version
def test_header_versions_are_those_of_kios_schemas(api: Api, version: int) -> None:
    request, response = request_class(api.key, version), response_class(api.key, version)
    assert request.__flexible__ == (version >= api.first_flexible)
    assert request.__header_schema__.__version__ == (2 if version >= api.first_flexible else 1)
    assert response.__header_schema__.__version__ == api.response_header_version(version)
