"""The error of making new logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from protocol.errors import KafkaStorage
from storage.folders.log_dirs import LogDir


class LogsNotMadeError(KafkaStorage):
    """New logs cannot be made because of `cause`, an error of `log_dir`."""

    def __init__(self, log_dir: LogDir, cause: OSError) -> None:
        super().__init__(f"Cannot create logs in {log_dir.path}: {cause}")
        self.log_dir = log_dir
        self.cause = cause


@contextmanager
def making(log_dir: LogDir) -> Iterator[None]:
    """Raises LogsNotMadeError for an OSError within."""
    try:
        yield
    except OSError as error:
        raise LogsNotMadeError(log_dir, error) from error
