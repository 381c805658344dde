"""Errors of a data folder; every message says where, and what to do about it."""

from __future__ import annotations


class DataSourceError(Exception):
    """The folder, or what was asked of it, does not allow the read."""


class StoreUnavailableError(DataSourceError):
    """Remote storage has not done what it was asked for; it may, another time."""


class CorruptLogError(DataSourceError):
    """Bytes in the middle of a log, or one of its indexes, are not what a broker writes (`failOnCorruption`)."""


class DataLossError(DataSourceError):
    """Records that were asked for are gone: deleted, truncated, or of a topic that was recreated (`failOnDataLoss`)."""
