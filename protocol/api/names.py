"""Kafka's names of APIs and errors, as users write them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from .row import Api
from .table import API_BY_KEY, API_TABLE


def error_name(code: ErrorCode) -> str:
    return code.name.upper()


API_NAMES = {api.name: api.kafka_name for api in API_BY_KEY.values()}
ERRORS = {error_name(code): code for code in ErrorCode if code is not ErrorCode.none}
ERROR_CODES = {name: int(code.value) for name, code in ERRORS.items()}

API_KEYS = {api.kafka_name: api.key for api in API_TABLE}

_ERRORS = {code.name.replace("_", ""): code for code in ERRORS.values()}

SUFFIXES = ("exception", "error")
"""What clients add to the names of errors: NotLeaderOrFollowerException."""

MOST_SHOWN = 5


def find_api(given: str | int) -> Api | None:
    """The API of a name or number that is served on a broker's listener."""
    text = str(given)
    letters = _letters(text)
    for api in API_BY_KEY.values():
        if api.place != "controller" and (str(api.key) == text or api.name.replace("_", "") == letters):
            return api
    return None


def find_error(given: str | int) -> ErrorCode | None:
    """The error of a name or number, other than NONE."""
    text = str(given)
    if text.removeprefix("-").isdecimal():
        return next((code for code in ERRORS.values() if code == int(text)), None)
    letters = _letters(text)
    shorter = (letters.removesuffix(suffix) for suffix in SUFFIXES)
    return next((_ERRORS[written] for written in (letters, *shorter) if written in _ERRORS), None)


def nearest(given: str | int, numbers: Mapping[str, int]) -> str:
    """The names that are most like what was given, by their words and by their letters, each with its number."""
    words, letters = _words(str(given)), _letters(str(given))

    def likeness(name: str) -> float:
        own = _words(name)
        shared = len(words & own) / len(words | own)
        return shared + difflib.SequenceMatcher(None, letters, _letters(name)).ratio()

    found = sorted(numbers, key=likeness, reverse=True)[:MOST_SHOWN]
    return ", ".join(f"{name} ({numbers[name]})" for name in found)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)}
