"""Checks of what a request to the control interface gives: the error names the parameter and what is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from broker.testkit.control.app import ENDPOINTS, document
from broker.testkit.control.endpoint import ControlError, Endpoint, Kind, Parameter

ENDPOINT = Endpoint(
    "POST",
    "/groups/{group}/wait",
    "Wait.",
    lambda node, values: None,
    (
        Parameter("group", Kind.STRING, "the group's id", required=True),
        Parameter("state", Kind.STRING, "the state to wait for", choices=("Stable", "Empty")),
        Parameter("timeout", Kind.NUMBER, "seconds", least=0),
        Parameter("members", Kind.INTEGER, "how many"),
        Parameter("now", Kind.BOOLEAN, "at once"),
    ),
)


def test_values_of_path_and_body_are_checked_and_none_is_absent() -> None:
    given = {"timeout": 1.5, "members": 2, "state": None, "now": True}
    assert ENDPOINT.check(given, {"group": "g"}) == {"group": "g", "timeout": 1.5, "members": 2, "now": True}


@pytest.mark.parametrize(
    ("given", "texts", "parameter", "message"),
    [
        ({}, {}, "group", "group is missing: the group's id"),
        ({"stat": "x"}, {"group": "g"}, "stat", "stat is no parameter; did you mean state?"),
        ({"state": "x"}, {"group": "g"}, "state", "state = 'x': expected one of Stable, Empty"),
        ({"timeout": -1}, {"group": "g"}, "timeout", "timeout = -1: expected at least 0"),
        ({"timeout": True}, {"group": "g"}, "timeout", "timeout = True: expected a number"),
        ({"timeout": float("nan")}, {"group": "g"}, "timeout", "timeout = nan: expected a number"),
        ({}, {"group": "g", "timeout": "inf"}, "timeout", "timeout = inf: expected a number"),
        ({"members": 1.5}, {"group": "g"}, "members", "members = 1.5: expected a whole number"),
        ({}, {"group": "g", "members": "two"}, "members", "members = 'two': expected a whole number"),
        ({}, {"group": "g", "now": "perhaps"}, "now", "now = 'perhaps': expected true or false"),
    ],
)
def test_a_wrong_parameter_is_named(given: dict[str, Any], texts: dict[str, str], parameter: str, message: str) -> None:
    with pytest.raises(ControlError) as caught:
        ENDPOINT.check(given, texts)
    assert (str(caught.value), caught.value.parameter) == (message, parameter)


def test_each_endpoint_names_the_parameters_of_its_path_and_openapi_has_it() -> None:
    described = document(ENDPOINTS, "1")
    for endpoint in ENDPOINTS:
        in_path = {part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")}
        assert in_path <= {parameter.name for parameter in endpoint.parameters}
        assert endpoint.method.lower() in described["paths"][f"/control{endpoint.path}"]
