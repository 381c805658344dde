"""Removing the folders of logs, at once or after `file.delete.delay.ms`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from storage.files import FileSystem, is_transient
from storage.log.log_services import DESCRIPTORS_RETRY_MS, LogServices

logger = structlog.get_logger(__name__)


def remove_folder(fs: FileSystem, path: str) -> None:
    """Remove a folder and everything in it, but not what a symbolic link in it leads to; blocking. Raises OSError.

    In the order of names: after a crash, what is left has no record any more, or still its `partition.metadata`.
    """
    for name in sorted(fs.listdir(path)):
        below = f"{path}/{name}"
        if fs.is_dir(below) and not fs.is_link(below):
            remove_folder(fs, below)
        else:
            fs.unlink(below)
    fs.rmdir(path)


def remove_folder_later(services: LogServices, folder: str, delay_ms: int, stopped: Callable[[], bool]) -> None:
    """Remove a folder `delay_ms` from now, unless the broker has `stopped` by then; the next start does it then."""

    def failed(error: Exception) -> None:
        logger.error("folder not removed", folder=folder, error=str(error))
        if is_transient(error):
            services.clock.call_later(delay_ms + DESCRIPTORS_RETRY_MS, remove)

    def remove() -> None:
        if stopped():  # the workers take nothing more, and the folder may be another broker's
            return
        work = partial(remove_folder, services.fs, folder)
        services.workers.submit(work, lambda _: logger.info("folder removed", folder=folder), failed)

    services.clock.call_later(delay_ms, remove)
