"""Log lines, by structlog to standard error: readable on a terminal, and JSON lines otherwise.

Among the fields, `error` is the text of an exception, and `partition` a partition's name such as `topic-0`. Warnings
that repeat are left out, and the journal of systemd is told the priority of each line.

Levels are those of the standard library's loggers, and can be read and changed while the process runs (Kafka's
BROKER_LOGGER resources): a logger without a level of its own has that of the nearest package above it
(`broker.network` of `broker.network.server`), in the end that of `root`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

PERIOD_S = 60.0
LINES = 10
"""Warnings of one event about one subject within a period."""
MOST_REMEMBERED = 1_000
"""Events and subjects that are counted; with more, the one of which nothing was heard longest is forgotten."""
SUBJECTS = ("partition", "client", "listener", "group", "shard", "broker", "leader", "path", "place", "job", "metric")
"""Fields that say what a line is about."""

PRIORITIES = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
"""Syslog's number of each level; an `exception` has the level error."""

ROOT = "root"
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": 5,
    "WARN": logging.WARNING,
}
"""The standard library's number of each of Kafka's levels."""
_PACKAGES = frozenset({"broker", "controller", "coordinator", "metadata", "protocol", "storage", "timing"})
_BY_SEVERITY = sorted(LEVELS.items(), key=lambda item: item[1])


@dataclass(slots=True)
class _Repeated:
    since_s: float
    count: int = 0


class RepeatedLines:
    """Lets so many warnings a minute pass of each event and subject; the next one to pass says how many did not."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._known: dict[tuple[object, ...], _Repeated] = {}
        self._lock = threading.Lock()  # worker threads write lines too

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if method in ("debug", "info"):
            return event
        key = (event.get("event"), *(str(event.get(field)) for field in SUBJECTS))
        with self._lock:
            count, left_out = self._counted(key, self._monotonic_s())
        if count > LINES:
            raise structlog.DropEvent
        if count == LINES:
            event["further_lines"] = "left out for a minute"
        if left_out:
            event["left_out"] = left_out
        return event

    def _counted(self, key: tuple[object, ...], now_s: float) -> tuple[int, int]:
        """The lines of this period with this one, and how many of the period before were left out."""
        known, left_out = self._known.pop(key, _Repeated(now_s)), 0
        if now_s - known.since_s >= PERIOD_S:
            known, left_out = _Repeated(now_s), max(known.count - LINES, 0)
        known.count += 1
        self._known[key] = known
        if len(self._known) > MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        return known.count, left_out


def is_journal(file: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether what is written to the file goes to the journal of systemd (`JOURNAL_STREAM`)."""
    try:
        status = os.fstat(file.fileno())
    except OSError:  # no file of the system
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def with_priority(render: Processor) -> Processor:
    """The renderer, with the priority before each line as systemd reads it: `<4>` for a warning."""

    def prefixed(logger: WrappedLogger, method: str, event: EventDict) -> str:
        priority = PRIORITIES.get(event.get("level", ""), PRIORITIES["info"])
        text: Any = render(logger, method, event)
        return "\n".join(f"<{priority}>{line}" for line in str(text).split("\n"))

    return prefixed


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
    default standard error. The levels are those of the standard library's loggers (`broker/logging.py`), by whatever
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


def levels() -> dict[str, str]:
    """The level in force of each logger by its name, `root` first; a level is one of `LEVELS`."""
    return {name: _text(_logger(name).getEffectiveLevel()) for name in (ROOT, *sorted(_names()))}


def set_level(name: str, level: str) -> None:
    """Give a logger a level, and with it those below that have none of their own. Raises KeyError for a wrong level."""
    _logger(name).setLevel(LEVELS[level])


def unset_level(name: str) -> None:
    """Take a logger's own level away; not that of `root`, as nothing is above it."""
    if name != ROOT:
        _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _names() -> set[str]:
    """The loggers of libraries, and those of our modules that are loaded, with the packages above them."""
    found = set(logging.Logger.manager.loggerDict)
    for name in _modules_that_log():
        parts = name.split(".")
        found.update(".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return found


def _modules_that_log() -> Iterator[str]:
    # structlog makes a module's logger, and with it the standard library's, when the first line is written.
    lazy = type(structlog.get_logger())
    for name, module in tuple(sys.modules.items()):
        if name.partition(".")[0] in _PACKAGES and isinstance(getattr(module, "logger", None), lazy):
            yield name


def _text(level: int) -> str:
    """Kafka's name of the level, or of the next one above."""
    return next((name for name, number in _BY_SEVERITY if level <= number), "FATAL")
