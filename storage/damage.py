"""The one event for data on disk that is not what was written there: which file, what was found, what was done."""

from __future__ import annotations

import structlog

logger = structlog.get_logger(__name__)

FROM_A_COPY = "the file was changed or its device lost data: check the device; a backup may have what is missing here"


def report(path: str, found: object, done: str, advice: str = FROM_A_COPY, **details: object) -> None:
    """Log damage; `done` says what the broker has made of it, `advice` what an operator can do."""
    logger.error("damaged data", path=path, found=str(found), done=done, advice=advice, **details)


def repaired(path: str, found: object, done: str, **details: object) -> None:
    """Log damage that the broker has mended without a loss, or that any power failure may leave."""
    logger.warning("damaged data", path=path, found=str(found), done=done, **details)
