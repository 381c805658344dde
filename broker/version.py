"""The version of this distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    try:
        return version("odradek")
    except PackageNotFoundError:  # run from the source tree alone
        return "0"
