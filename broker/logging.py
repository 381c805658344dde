"""Log lines: structlog to standard error, readable on a terminal and JSON lines otherwise.

Among the fields, `error` is the text of an exception, and `partition` a partition's name such as `topic-0`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from broker.log_lines import RepeatedLines, is_journal, with_priority


class _Surviving:
    """A file whose lines are lost while they cannot be written: the disk is full, or nobody reads the pipe any more."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()


class Tracebacks:
    """Counts the lines that carry a traceback: each is a bug, wherever it was caught."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if event.get("exc_info"):
            self.count += 1
        return event


class Warnings:
    """Tells `listener` of each line of level warning or above: the level, and a copy of the fields."""

    def __init__(self) -> None:
        self.listener: Callable[[str, dict[str, Any]], None] | None = None

    def __call__(self, _logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if self.listener is not None and method not in ("debug", "info"):
            self.listener(method, dict(event))
        return event


WARNINGS = Warnings()
"""One for the process, as is the configuration of logging."""


def configure(
    level: str = "info",
    line_format: str = "auto",
    file: TextIO | None = None,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> Tracebacks:
    """Set up all logging of the process: structlog's, and the standard library's for asyncio and aiohttp.

    `level` and `line_format` are the values of `odradek.log.level` and `odradek.log.format`; lines go to `file`, by
    default standard error. The levels are those of the standard library's loggers (`broker/log_levels.py`), by whatever
    name a line comes. No call fails because its line cannot be written. `monotonic_s` is the time by which repeated
    warnings are left out. Returns the counter of tracebacks from now on.
    """
    file = file or sys.stderr
    severity = logging.getLevelNamesMapping()[level.upper()]
    journal = is_journal(file, os.environ)
    console = file.isatty() or journal if line_format == "auto" else line_format == "console"
    tracebacks = Tracebacks()
    describe: list[Processor] = [
        tracebacks,
        WARNINGS,
        structlog.processors.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    *prepare, render = _console(file) if console else _json()
    if journal:
        render = with_priority(render)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *describe,
            RepeatedLines(monotonic_s),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(cast(TextIO, _Surviving(file)))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=describe,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *prepare, render],
        )
    )
    logging.basicConfig(level=severity, handlers=[handler], force=True)
    return tracebacks


def flush_last_lines() -> None:
    """Write out what is buffered, or drop it: the interpreter would end with status 120 if that failed later."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def log_loop_exceptions(loop: asyncio.AbstractEventLoop) -> None:
    """Log and count every exception that reaches the loop (from a callback, or a task nobody awaits).

    That a connection cannot be accepted for lack of descriptors is no bug; plain asyncio tells of it every second.
    """
    log = structlog.get_logger("asyncio")

    def handle(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            log.warning(context["message"], error=str(error))
            return
        source = {key: repr(value) for key, value in context.items() if key not in ("message", "exception")}
        log.error(context["message"], exc_info=error, **source)

    loop.set_exception_handler(handle)


def _console(file: TextIO) -> list[Processor]:
    return [
        _printable,
        structlog.dev.ConsoleRenderer(colors=file.isatty(), exception_formatter=_traceback),
    ]


def _printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The line without what a terminal would obey: clients choose names, and an error may have them in its text."""
    return {key: _escaped(value) if isinstance(value, str) else value for key, value in event.items()}


def _escaped(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _traceback(file: TextIO, exc_info: Any) -> None:
    # Deliberately the plain traceback: rich's, used where it is installed, prints every frame's variables.
    plain = io.StringIO()
    structlog.dev.plain_traceback(plain, exc_info)
    file.write("\n".join(map(_escaped, plain.getvalue().split("\n"))))


def _json() -> list[Processor]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
