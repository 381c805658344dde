"""Tests of all versions of an API at a time: one for each version would take longer to set up than to run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from protocol.api.row import Api
from protocol.api.table import API_TABLE

EVERY_VERSION = [(api, version) for api in API_TABLE for version in range(api.lowest, api.highest + 1)]
every_api = pytest.mark.parametrize("api", API_TABLE, ids=lambda api: api.name)


def each_version(test: Callable[..., None]) -> Callable[..., None]:
    """Run `test(api, version, ...)` for each version that is served of each API; a failure tells which it was."""

    def of_api(api: Api, **fixtures: Any) -> None:
        for version in range(api.lowest, api.highest + 1):
            try:
                test(api=api, version=version, **fixtures)
            except BaseException as error:
                error.add_note(f"in version {version} of {api.name}")
                raise

    parameters = inspect.signature(test).parameters.values()
    functools.update_wrapper(of_api, test)
    of_api.__signature__ = inspect.Signature([one for one in parameters if one.name != "version"])  # type: ignore[attr-defined]
    parametrized: Callable[..., None] = every_api(of_api)
    return parametrized
