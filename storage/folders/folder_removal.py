"""Removing the folders of logs, at once or after `file.delete.delay.ms`."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from storage.files import File, FileSystem, is_transient
from storage.log.log_services import DESCRIPTORS_RETRY_MS, LogServices

logger = structlog.get_logger(__name__)


def remove_folder(fs: FileSystem, path: str) -> None:
    """Remove a folder and everything in it; blocking. Raises OSError."""
    for name in fs.listdir(path):
        below = f"{path}/{name}"
        if fs.is_dir(below):
            remove_folder(fs, below)
        else:
            fs.unlink(below)
    fs.rmdir(path)


def remove_folder_later(services: LogServices, folder: str, delay_ms: int, files: Sequence[File] = ()) -> None:
    """Remove a folder, and close its open files, `delay_ms` from now. The next start removes what is left."""

    def close_and_remove() -> None:
        for file in files:
            file.close()
        remove_folder(services.fs, folder)

    def failed(error: Exception) -> None:
        logger.error("folder not removed", folder=folder, error=str(error))
        if is_transient(error):
            services.clock.call_later(delay_ms + DESCRIPTORS_RETRY_MS, remove)

    def remove() -> None:
        services.workers.submit(close_and_remove, lambda _: logger.info("folder removed", folder=folder), failed)

    services.clock.call_later(delay_ms, remove)
