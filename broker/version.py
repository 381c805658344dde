"""The version of this distribution, and of the Kafka whose protocol it speaks."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

KAFKA_VERSION = "4.4"


def own_version() -> str:
    try:
        return version("odradek")
    except PackageNotFoundError:  # run from the source tree alone
        return "0"
