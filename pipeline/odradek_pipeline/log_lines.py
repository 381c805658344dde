"""The log of a job's process: readable lines on a terminal, beside the bar, and JSON lines otherwise."""

from __future__ import annotations

import sys
from typing import TextIO

import structlog
from structlog.typing import Processor
from tqdm import tqdm


class _StreamBesideBar:
    """A stream for log lines that leaves the progress bar in place."""

    def write(self, text: str) -> None:
        tqdm.write(text, file=sys.stderr, end="")

    def flush(self) -> None:
        sys.stderr.flush()


def configure(stream: TextIO | None = None) -> bool:
    """Set up the log of the process, on standard error by default; return whether that is a terminal."""
    stream = stream or sys.stderr  # the current one, not the one at import time
    terminal = stream.isatty()
    render: list[Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True), *render],
        logger_factory=structlog.WriteLoggerFactory(file=_StreamBesideBar() if terminal else stream),  # type: ignore[arg-type]
    )
    return terminal
