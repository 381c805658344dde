"""A fault that could never match is refused, with the name of the parameter and what is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from broker.faults import partial
from broker.faults.spec import FaultError, fault_spec
from protocol.api.messages import newest_response
from protocol.api.names import find_api
from protocol.api.row import Api
from protocol.api.shape import topics_answered
from protocol.api.table import API_TABLE

LISTENERS = ["PLAINTEXT", "INTERNAL"]


@pytest.mark.parametrize(
    ("given", "parameter", "message"),
    [
        (
            {"api": "Prodoce", "observe": True},
            "api",
            "api = 'Prodoce' is no API here: expected a name or number, such as Produce (0), ",
        ),
        ({"api": "SaslAuthenticate", "error": 58}, "api", "only once the client is known"),
        ({"api": 4711, "observe": True}, "api", "such as Produce (0), Fetch (1), ListOffsets (2)"),
        ({"api": "Produce", "error": "NOT_LEADER"}, "error", "such as NOT_LEADER_OR_FOLLOWER (6), LEADER_NOT_"),
        ({"api": "Produce", "error": "TIMEOUT"}, "error", "REQUEST_TIMED_OUT (7)"),
        ({"api": "Produce", "error": ""}, "error", "error = '' is no error of Kafka's: expected a name or number"),
        ({"api": "²", "observe": True}, "api", "is no API"),
        ({"api": "Produce", "error": 9999}, "error", "error = 9999 is no error of Kafka's"),
        ({"api": "Produce", "error": "NONE"}, "error", "is no error"),
        (
            {"api": "Heartbeat", "topic": "t", "observe": True},
            "topic",
            "Heartbeat requests have none, so the fault would",
        ),
        ({"api": "Metadata", "partition": 0, "observe": True}, "partition", "expected with one of Produce, Fetch"),
        ({"api": "Produce", "group": "g", "observe": True}, "group", "expected with one of OffsetCommit, OffsetFetch"),
        (
            {"api": "Fetch", "transactional_id": "x", "observe": True},
            "transactional_id",
            "expected with one of Produce",
        ),
        ({"api": "Produce", "version": 2, "observe": True}, "version", "version = 2: Produce is served in 3 to 13"),
        ({"version": 2, "observe": True}, "version", "expected with an api"),
        ({"api": "Fetch", "phase": "after_append", "delay": 1}, "phase", "expected one of before, before_reply"),
        ({"api": "Produce", "phase": "after_append", "drop": "request"}, "phase", "expected before"),
        ({"api": "Produce", "listener": "X", "observe": True}, "listener", "expected one of INTERNAL, PLAINTEXT"),
        ({"api": "Produce", "topic": "a b", "observe": True}, "topic", "topic = 'a b'"),
        ({"api": "Produce"}, "error", "expected one of error, delay, drop, disconnect, observe, then"),
        ({"api": "Produce", "disconnect": False}, "error", "the fault does nothing"),
        ({"api": "Produce", "error": 6, "drop": "reply"}, "drop", "and error is set"),
        ({"api": "Produce", "drop": "reply", "disconnect": True}, "disconnect", "and drop is set"),
        ({"api": "Produce", "error": 6, "observe": True}, "observe", "expected alone"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], parameter: str, message: str) -> None:
    with pytest.raises(FaultError) as caught:
        fault_spec(given, LISTENERS)
    assert caught.value.parameter == parameter
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["Produce", "produce", "PRODUCE", 0, "0"])
def test_an_api_has_a_name_and_a_number(name: str | int) -> None:
    assert fault_spec({"api": name, "observe": True}, LISTENERS).apis == ("produce",)


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "not_leader_or_follower", "NotLeaderOrFollowerException", 6, "6"]
)
def test_an_error_has_a_name_and_a_number(error: str | int) -> None:
    assert fault_spec({"api": "end-txn", "error": error}, LISTENERS).error == 6


@pytest.mark.parametrize(("error", "code"), [("UnknownServerError", -1), ("CORRUPT_MESSAGE", 2), ("-1", -1)])
def test_names_of_errors_that_clients_have_are_known(error: str, code: int) -> None:
    assert fault_spec({"api": "Produce", "error": error}, LISTENERS).error == code


@pytest.mark.parametrize(
    "given",
    [
        {"api": "ShareFetch", "topic": "orders", "partition": 0, "group": "g"},
        {"api": "ShareGroupHeartbeat", "group": "g"},
        {"api": "ShareAcknowledge", "topic": "orders", "phase": "after_append"},
        {"api": "StreamsGroupTopologyDescriptionUpdate", "group": "g"},
        {"api": "AlterShareGroupOffsets", "topic": "orders"},
        {"api": "WriteTxnMarkers", "topic": "orders", "phase": "after_fsync"},
        {"api": "DescribeQuorum", "topic": "__cluster_metadata"},
    ],
)
def test_what_the_requests_of_an_api_name_can_be_selected(given: dict[str, Any]) -> None:
    assert fault_spec(given | {"delay": 1}, LISTENERS).apis == (find_api(given["api"]).name,)


@pytest.mark.parametrize("api", API_TABLE, ids=lambda api: api.name)
def test_only_an_answer_with_a_place_for_each_topic_fails_in_part(api: Api) -> None:
    if partial.is_partial(api) and not api.own_codec and api.name != "offset_fetch":
        assert topics_answered(newest_response(api)) is not None
