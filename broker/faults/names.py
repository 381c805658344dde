"""Kafka's names of APIs and errors, as users write them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from protocol.api_table import API_BY_KEY, API_TABLE, Api


def api_name(name: str) -> str:
    """Kafka's name of an API: `Produce` for `produce`."""
    return "".join(part.capitalize() for part in name.split("_"))


def error_name(code: ErrorCode) -> str:
    return code.name.upper()


API_NAMES = {api.name: api_name(api.name) for api in API_TABLE}
ERRORS = {error_name(code): code for code in ErrorCode if code is not ErrorCode.none}

_APIS = {api.name.replace("_", ""): api for api in API_TABLE}


def find_api(given: str | int) -> Api | None:
    """The API of a name or number."""
    text = str(given)
    if text.isdecimal():
        return API_BY_KEY.get(int(text))
    return _APIS.get(text.lower().replace("_", "").replace("-", ""))


def find_error(given: str | int) -> ErrorCode | None:
    """The error of a name or number, other than NONE."""
    text = str(given)
    if text.lstrip("-").isdecimal():
        return next((code for code in ERRORS.values() if code == int(text)), None)
    return ERRORS.get(text.upper().replace("-", "_"))


def expected(given: object, names: Iterable[str]) -> str:
    """What would have been accepted: near names if there are some, or else all of them."""
    names = list(names)
    near = difflib.get_close_matches(str(given).lower(), [name.lower() for name in names], n=3)
    if near:
        by_lower = {name.lower(): name for name in names}
        return "did you mean " + " or ".join(by_lower[one] for one in near) + "?"
    return f"expected one of {', '.join(names)}"
